import {
  currentSession,
  dtypes,
  type Model,
  type Module,
  type ParallelModel,
  type Plan,
  type Strategy,
} from '@shardwise/core';
import { parameterSpecs } from './parameter-specs.ts';

/** How a strategy would lay the model out on this rank's mesh; print it with `explain`. */
export function planFor(model: Module, strategy: Strategy<Module>): Plan {
  const bufferBytes = model
    .namedBuffers()
    .reduce((sum, [, { numel, dtype }]) => sum + numel * dtypes[dtype].bytes, 0);
  return { ...strategy.plan(parameterSpecs(model), currentSession().mesh.axes), bufferBytes };
}

/** Plans and applies a strategy. A collective. */
export function parallelize<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  strategy: Strategy<Module>,
): Promise<ParallelModel<M, Inputs, Output>> {
  return strategy.apply(planFor(model, strategy), model);
}
