/** JSON, which by itself has one word for NaN and the infinities, and none for -0. */
export function structureKey(structure: unknown): string {
  return JSON.stringify(structure, (_, value: unknown) => {
    if (typeof value !== 'number') return value;
    return Object.is(value, -0) ? '-0' : String(value);
  });
}
