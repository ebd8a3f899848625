import {
  currentSession,
  dtypes,
  type Model,
  type Module,
  type ParallelModel,
  type Plan,
  type Strategy,
} from '@shardwise/core';
import { parameterNames } from './parameter-names.ts';

/** How a strategy would lay the model out on this rank's mesh; print it with `explain`. */
export function planFor(model: Module, strategy: Strategy<Module>): Plan {
  const names = parameterNames(model);
  const parameters = model.namedParameters().map(([name, parameter]) => {
    const { shape, dtype, requiresGrad } = parameter;
    return { name, shape, dtype, requiresGrad, names: names.get(parameter) ?? [name] };
  });
  const bufferBytes = model
    .namedBuffers()
    .reduce((sum, [, { numel, dtype }]) => sum + numel * dtypes[dtype].bytes, 0);
  return { ...strategy.plan(parameters, currentSession().mesh.axes), bufferBytes };
}

/** Plans and applies a strategy. A collective. */
export function parallelize<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  strategy: Strategy<Module>,
): Promise<ParallelModel<M, Inputs, Output>> {
  return strategy.apply(planFor(model, strategy), model);
}
