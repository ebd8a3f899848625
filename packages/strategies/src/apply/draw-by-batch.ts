import { axesOfLayout, ownPlace, withBatchPart } from '@shardwise/core/extend';
import { interceptForward } from '../modules/module-method.ts';
import type { PassHooks, PlanContext } from '../plan/plan-context.ts';

/**
 * Has ranks with different parts of the batch draw different random numbers in forward passes. These are the passes of
 * the strategy, with the loss that it computes, and calls of `parallel.module.forward`. The number of a part counts over
 * all axes that divide the batch, so the numbers do not depend on how ranks are arranged in axes. With one part, nothing
 * changes.
 */
export function drawByBatch({ plan, model }: PlanContext): PassHooks {
  const places = axesOfLayout(plan.batch).map(ownPlace);
  const parts = places.reduce((product, { size }) => product * size, 1);
  if (parts === 1 || plan.sharesDraws === true) return {};
  const part = places.reduce((before, { size, rank }) => before * size + rank, 0);
  let isParallel = true;
  interceptForward(model, (forward, inputs) =>
    isParallel ? withBatchPart(part, () => forward(inputs)) : forward(inputs),
  );
  return {
    forward: (run, inputs) => withBatchPart(part, () => run(...inputs)),
    detach() {
      isParallel = false;
    },
  };
}
