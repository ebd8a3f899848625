import { currentSession, type Module, type Plan, type Strategy } from '@shardwise/core';

/** How a strategy would lay the model out on this rank's mesh; print it with `explain`. */
export function planFor<M extends Module, Applied extends M>(model: M, strategy: Strategy<M, Applied>): Plan {
  const parameters = [...model.namedParameters()].map(([name, { shape, dtype, requiresGrad }]) => ({ name, shape, dtype, requiresGrad }));
  return strategy.plan(parameters, currentSession().mesh.axes);
}

/** Plans and applies a strategy. A collective. */
export function parallelize<M extends Module, Applied extends M>(model: M, strategy: Strategy<M, Applied>): Promise<Applied> {
  return strategy.apply(planFor(model, strategy), model);
}
