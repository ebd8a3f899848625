import type { Module, ParameterSpec } from '@shardwise/core/extend';
import { parameterNames } from './parameter-names.ts';

/** What a plan needs to know of a model, as this rank has it. */
export function parameterSpecs(model: Module): readonly ParameterSpec[] {
  const names = parameterNames(model);
  return model.namedParameters().map(([name, parameter]) => {
    const { shape, dtype, requiresGrad } = parameter.part;
    return { name, shape, dtype, requiresGrad, names: names.get(parameter) ?? [name] };
  });
}
