/**
 * A copy of `defaults` in which the given values replace the defaults. Undefined counts as left out, as it does in
 * checkOptions.
 */
export function withDefaults<T extends object>(defaults: T, given: Partial<NoInfer<T>>): T {
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.assign({ ...defaults }, Object.fromEntries(set));
}
