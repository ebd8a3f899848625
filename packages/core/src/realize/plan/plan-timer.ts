import type { Node } from '../../graph/node.ts';
import type { Sizes } from '../../spec/backend.ts';
import type { ExecutionPlan } from './execution-plan.ts';

/** The nodes whose values a plan computes. */
export interface PlannedNodes {
  readonly leaves: readonly Node[];
  /** In program order. */
  readonly computed: readonly Node[];
}

/** Returns a plan with the same steps, which a run executes in the place of `plan` so that their times are taken. */
export type PlanTimer = (plan: ExecutionPlan, nodes: PlannedNodes, sizes: Sizes) => ExecutionPlan;

/** What takes the times of this rank's plans. Null if nothing does. */
export const planTimer: { current: PlanTimer | null } = { current: null };
