/** The bytes of each sample, as hexadecimal digits. */
export function writtenSamples<Code extends { finish(): Uint8Array }>(
  begin: () => Code,
  samples: Readonly<Record<string, (code: Code) => void>>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(samples).map(([meant, write]) => {
      const code = begin();
      write(code);
      return [meant, Buffer.from(code.finish()).toString('hex')];
    }),
  );
}
