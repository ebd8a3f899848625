import type { Sizes } from '../../spec/backend.ts';
import { PlanCache } from '../cache/plan-cache.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';
import type { PlannedNodes } from './program-parts.ts';

/** Returns a plan with the same steps, which a run executes in the place of `plan` so that it is followed. */
export type PlanTimer = (plan: ExecutionPlan, nodes: PlannedNodes, sizes: Sizes) => ExecutionPlan;

/** The timers of this rank, in the order in which they take plans. */
const timers = new Set<PlanTimer>();
let restore = (): void => {};

/** Has `timer` take the plans of this rank, beside other timers, until the returned function is called. */
export function addPlanTimer(timer: PlanTimer): () => void {
  if (timers.size === 0) restore = wrapSearch();
  timers.add(timer);
  return () => {
    if (timers.delete(timer) && timers.size === 0) restore();
  };
}

/** A hook in the code of runs would be loaded by every page, so the search for plans is wrapped instead. */
function wrapSearch(): () => void {
  // oxlint-disable-next-line typescript/unbound-method -- it is called with the cache below
  const { planFor } = PlanCache.prototype;
  PlanCache.prototype.planFor = async function timedPlanFor(subgraph, outputs, start) {
    const found = await planFor.call(this, subgraph, outputs, start);
    let { plan } = found;
    for (const timer of timers) plan = timer(plan, subgraph, found.sizes);
    return { ...found, plan };
  };
  return () => {
    PlanCache.prototype.planFor = planFor;
  };
}
