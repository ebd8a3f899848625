import { rankState } from '../../ambient.ts';
import type { Sizes } from '../../spec/backend.ts';
import { PlanCache } from '../cache/plan-cache.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';
import type { PlannedNodes } from './program-parts.ts';

/** Returns a plan with the same steps, which a run executes in the place of `plan` so that it is followed. */
export type PlanTimer = (plan: ExecutionPlan, nodes: PlannedNodes, sizes: Sizes) => ExecutionPlan;

/**
 * The timers of each rank, in the order in which they take plans. Ranks are told apart by their counters, because several of
 * them may be in this thread.
 */
const timersOf = new Map<object, Set<PlanTimer>>();
let restore = (): void => {};

/** Has `timer` take the plans of this rank, beside other timers, until the returned function is called. */
export function addPlanTimer(timer: PlanTimer): () => void {
  if (timersOf.size === 0) restore = wrapSearch();
  const { counters: rank } = rankState;
  const timers = timersOf.get(rank) ?? new Set();
  timersOf.set(rank, timers.add(timer));
  return () => {
    timers.delete(timer);
    if (timers.size === 0 && timersOf.delete(rank) && timersOf.size === 0) restore();
  };
}

/** A hook in the code of runs would be loaded by every page, so the search for plans is wrapped instead. */
function wrapSearch(): () => void {
  // oxlint-disable-next-line typescript/unbound-method -- it is called with the cache below
  const { planFor } = PlanCache.prototype;
  PlanCache.prototype.planFor = async function timedPlanFor(subgraph, outputs, start) {
    const timers = timersOf.get(rankState.counters) ?? [];
    const found = await planFor.call(this, subgraph, outputs, start);
    let { plan } = found;
    for (const timer of timers) plan = timer(plan, subgraph, found.sizes);
    return { ...found, plan };
  };
  return () => {
    PlanCache.prototype.planFor = planFor;
  };
}
