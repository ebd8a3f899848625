import {
  axesOfLayout,
  currentSession,
  type Model,
  type Module,
  ownPlace,
  withBatchPart,
} from '@shardwise/core/extend';
import { AppliedPlan } from './applied-plan.ts';
import { checkApplied, checkInitialParts, checkPlan, checkSequences } from './check-plan.ts';
import { declareTypes } from './declare-types.ts';
import { PlannedModel } from './planned-model.ts';
import type { ModelPlan } from '../plan/step.ts';
import { interceptForward } from '../modules/module-method.ts';
import type { PassHooks, PlanContext } from '../plan/plan-context.ts';

/**
 * Applies a plan to the model of this rank. The plan can be edited before. This is a collective. Before it changes
 * anything, it throws LayoutError for a plan whose steps do not fit each other, and LayoutError or ConfigError if they
 * do not fit the model.
 */
export async function applyPlan<M extends Module, Inputs extends readonly unknown[], Output>(
  plan: ModelPlan,
  model: M & Model<Inputs, Output>,
): Promise<PlannedModel<M, Inputs, Output>> {
  checkPlan(plan);
  checkInitialParts(plan, model);
  checkSequences(plan, model);
  const context = new AppliedPlan(plan, model);
  for (const step of plan.steps) step.check(context);
  for (const step of plan.steps) await step.apply(context);
  if (plan.autocast !== undefined) {
    const { runInAutocast } = await import('./loaded-on-demand.ts');
    runInAutocast(plan.autocast, model);
  }
  await currentSession().realize([]);
  checkApplied(plan, model);
  markVarying(plan, model);
  context.hooks.push(declareTypes(context));
  // Around the passes of all other hooks, which may compute a loss in them.
  context.hooks.unshift(drawByBatch(context));
  return new PlannedModel<M, Inputs, Output>(model, context);
}

function markVarying({ parameters }: ModelPlan, model: Module): void {
  const axesOf = new Map(parameters.map(({ name, parameter }) => [name, parameter.varying ?? []]));
  for (const [name, parameter] of model.namedParameters()) {
    parameter.markVarying(axesOf.get(name) ?? []);
  }
  const axes = [...new Set([...axesOf.values()].flat())];
  for (const [, buffer] of model.namedBuffers()) buffer.markVarying(axes);
}

/**
 * Has ranks with different parts of the batch draw different random numbers in forward passes. These are the passes of
 * the strategy, with the loss that it computes, and calls of `parallel.module.forward`. The number of a part counts over
 * all axes that divide the batch, so the numbers do not depend on how ranks are arranged in axes. With one part, nothing
 * changes.
 */
function drawByBatch({ plan, model }: PlanContext): PassHooks {
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
