/** The unit of a parameter, from its name. '' is the unit of the whole model. */
export type UnitOf = (parameterName: string) => string;

/** Units are the members of the outermost list of modules, such as the blocks of a transformer: `blocks.3`. */
export const byLayer: UnitOf = (name) => /^(?:[^.]+\.)*?\d+(?=\.)/.exec(name)?.[0] ?? '';

/** The whole model is one unit. */
export const oneUnit: UnitOf = () => '';

/** Returns the unit that holds a parameter with all of these names. */
export function commonUnit(names: readonly string[], unitOf: UnitOf): string {
  const units = new Set(names.map(unitOf));
  const [unit = ''] = units;
  return units.size === 1 ? unit : '';
}
