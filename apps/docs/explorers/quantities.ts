const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** Writes bytes with a unit: 1536 is `1.5 KiB`. */
export function bytesText(bytes: number): string {
  const power = bytes < 1024 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${Number(value.toPrecision(3))} ${units[power] ?? 'B'}`;
}

/** Writes a time, such as `12.5 ms` or `80 µs`. */
export function millisecondsText(milliseconds: number): string {
  if (milliseconds >= 1000) return `${Number((milliseconds / 1000).toPrecision(3))} s`;
  if (milliseconds >= 1) return `${Number(milliseconds.toPrecision(3))} ms`;
  return `${Number((milliseconds * 1000).toPrecision(3))} µs`;
}

export function percentText(share: number): string {
  return `${Number((100 * share).toFixed(1))} %`;
}
