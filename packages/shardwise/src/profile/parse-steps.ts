/** Parses `10-12`, or `10` for one step. Returns undefined for other texts. */
export function parseSteps(text: string): readonly [from: number, to: number] | undefined {
  const [, first, last = first] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(text) ?? [];
  const [from, to] = [Number(first), Number(last)];
  return from <= to ? [from, to] : undefined;
}
