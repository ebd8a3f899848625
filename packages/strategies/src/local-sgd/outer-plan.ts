import type { Layout, MeshAxis, ModelSpec } from '@shardwise/core/extend';
import { cutFragments } from './cut-fragments.ts';
import { outerSteps, type OuterSteps } from './outer-steps.ts';
import { requireAxis } from '../plan/axes.ts';
import { type ModelPlan, Step } from '../plan/step.ts';

/** The data of outer steps before the model is known. */
export interface OuterPlanOptions extends Omit<OuterSteps, 'fragments'> {
  readonly strategy: string;
  /** The number of fragments. */
  readonly fragments: number;
}

/** Returns the plan of ranks that train separately, each on a part of the batch, and meet after every few updates. */
export function outerPlan(
  { strategy, fragments, ...data }: OuterPlanOptions,
  { parameters }: ModelSpec,
  axes: readonly MeshAxis[],
): ModelPlan {
  requireAxis(strategy, axes, data.axis);
  const trained = parameters.filter(({ requiresGrad }) => requiresGrad);
  const cut = cutFragments(strategy, trained, fragments);
  // Members that come and go are no ranks of an axis. The ranks of one of them share its work by another strategy.
  const over = data.members === null ? [data.axis] : [];
  return {
    strategy,
    axes,
    batch: { dims: [over], partial: [] },
    parameters: parameters.map((parameter) => {
      const dims = parameter.shape.map(() => []);
      const whole: Layout = { dims, partial: [] };
      // Between outer steps, ranks have different values of what trains.
      const own: Layout =
        parameter.requiresGrad && over.length > 0 ? { ...whole, varying: over } : whole;
      return { ...parameter, parameter: own, gradient: own, optimizer: own };
    }),
    steps: [new Step(outerSteps, { ...data, fragments: cut })],
  };
}
