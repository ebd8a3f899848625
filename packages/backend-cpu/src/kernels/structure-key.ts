/**
 * Returns a structure as JSON. Plain JSON has the same text for NaN and the infinities, and none for -0, so numbers are
 * written as strings.
 */
export function structureKey(structure: unknown): string {
  return JSON.stringify(structure, (_, value: unknown) => {
    if (typeof value !== 'number') return value;
    return Object.is(value, -0) ? '-0' : String(value);
  });
}
