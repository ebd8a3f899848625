import {
  currentSession,
  type Model,
  type Module,
  rankState,
  requireModule,
  requireNoMore,
  type Strategy,
} from '@shardwise/core/extend';
import { applyPlan } from './apply-plan.ts';
import type { PlannedModel, PlannedModelWithLoss } from './planned-model.ts';
import { modelSpec } from '../plan/model-spec.ts';
import type { ModelPlan } from '../plan/step.ts';
import { requireStrategy, type StrategyWithLoss } from '../plan/strategy.ts';

/**
 * Returns the plan of a strategy for a model on this rank's mesh. `explain` prints it. Throws ConfigError for a value
 * that is not a strategy.
 */
export function planFor(model: Module, strategy: Strategy): ModelPlan {
  requireModule('a plan', model);
  requireStrategy(strategy);
  const spec = modelSpec(model);
  const make = (): ModelPlan => ({
    ...strategy.plan(spec, currentSession().mesh.axes),
    buffers: spec.buffers,
  });
  return rankState.makePlan?.(make, spec, strategy) ?? make();
}

/**
 * Makes the plan of a strategy and applies it: `applyPlan(planFor(model, strategy), model)`. It is a
 * collective. Throws ConfigError for what is no module or no strategy, and for options beside the strategy. Make
 * optimizers after it, because it may replace parameters.
 */
export async function parallelize<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Targets extends readonly unknown[],
>(
  model: M & Model<Inputs, Output>,
  strategy: StrategyWithLoss<Output, Targets>,
): Promise<PlannedModelWithLoss<M, Inputs, Output, Targets>>;
export async function parallelize<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  strategy: Strategy,
): Promise<PlannedModel<M, Inputs, Output>>;
export async function parallelize(
  model: Module & Model<readonly unknown[], unknown>,
  strategy: Strategy,
  ...more: readonly never[]
): Promise<PlannedModel<Module, readonly unknown[], unknown>> {
  requireNoMore('parallelize', 2, more);
  return applyPlan(planFor(model, strategy), model);
}
