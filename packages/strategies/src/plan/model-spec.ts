import type { BufferSpec, ModelSpec, Module, ParameterSpec } from '@shardwise/core/extend';
import { parameterNames } from '../parameter-names.ts';

/** What a plan needs to know of a model, as this rank has it. */
export function modelSpec(model: Module): Required<ModelSpec> {
  return {
    parameters: parameterSpecs(model),
    buffers: bufferSpecs(model),
    modules: model.namedModules().map(([path]) => path),
  };
}

export function parameterSpecs(model: Module): readonly ParameterSpec[] {
  const names = parameterNames(model);
  return model.namedParameters().map(([name, parameter]) => {
    const { shape, dtype, requiresGrad } = parameter.part;
    return { name, shape, dtype, requiresGrad, names: names.get(parameter) ?? [name] };
  });
}

function bufferSpecs(model: Module): readonly BufferSpec[] {
  return model.namedBuffers().map(([name, { shape, dtype }]) => ({ name, shape, dtype }));
}
