import type { Module, Parameter } from '@shardwise/core/extend';

/** All names under which modules hold each parameter. */
export function parameterNames(model: Module): ReadonlyMap<Parameter, readonly string[]> {
  const names = new Map<Parameter, string[]>();
  for (const [path, module] of model.namedModules()) {
    for (const [name, parameter] of module.ownParameters()) {
      const full = path === '' ? name : `${path}.${name}`;
      names.set(parameter, [...(names.get(parameter) ?? []), full]);
    }
  }
  return names;
}
