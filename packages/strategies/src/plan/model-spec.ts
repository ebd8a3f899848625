import type {
  BufferSpec,
  ModelSpec,
  Module,
  Parameter,
  ParameterSpec,
} from '@shardwise/core/extend';

/** Returns the description of a model, as this rank has it, from which strategies make plans. */
export function modelSpec(
  model: Module,
): Required<Omit<ModelSpec, 'division'>> & Pick<ModelSpec, 'division'> {
  const division = model.division?.();
  return {
    parameters: parameterSpecs(model),
    buffers: bufferSpecs(model),
    modules: model.namedModules().map(([path]) => path),
    ...(division === undefined ? {} : { division }),
  };
}

function parameterSpecs(model: Module): readonly ParameterSpec[] {
  const names = parameterNames(model);
  return model.namedParameters().map(([name, parameter]) => {
    const { shape, dtype, requiresGrad } = parameter.part;
    return { name, shape, dtype, requiresGrad, names: names.get(parameter) ?? [name] };
  });
}

function bufferSpecs(model: Module): readonly BufferSpec[] {
  return model.namedBuffers().map(([name, { shape, dtype }]) => ({ name, shape, dtype }));
}

/** Returns all names under which modules hold each parameter. */
function parameterNames(model: Module): ReadonlyMap<Parameter, readonly string[]> {
  const names = new Map<Parameter, string[]>();
  for (const [path, module] of model.namedModules()) {
    for (const [name, parameter] of module.ownParameters()) {
      const full = path === '' ? name : `${path}.${name}`;
      names.set(parameter, [...(names.get(parameter) ?? []), full]);
    }
  }
  return names;
}
