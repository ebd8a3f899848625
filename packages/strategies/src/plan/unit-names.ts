import type { ModelSpec } from '@shardwise/core/extend';
import { matchesModule } from './matches-module.ts';

/** The unit of a parameter, from its name. '' is the unit of the whole model. */
export type UnitOf = (parameterName: string) => string;

/** Units are the members of the outermost list of modules, such as the blocks of a transformer: `blocks.3`. */
export const byLayer: UnitOf = (name) => /^(?:[^.]+\.)*?\d+(?=\.)/.exec(name)?.[0] ?? '';

/** Units are the modules that the model names itself. Undefined if it names none. */
export function unitsOfModel({ division, modules = [] }: ModelSpec): UnitOf | undefined {
  const patterns = division?.units;
  if (patterns === undefined) return undefined;
  const units = modules.filter((path) => patterns.some((each) => matchesModule(each, path)));
  return (name) => units.find((unit) => name.startsWith(`${unit}.`)) ?? '';
}

/** The whole model is one unit. */
export const oneUnit: UnitOf = () => '';

/** Returns the unit that holds a parameter with all of these names. */
export function commonUnit(names: readonly string[], unitOf: UnitOf): string {
  const units = new Set(names.map(unitOf));
  const [unit = ''] = units;
  return units.size === 1 ? unit : '';
}
