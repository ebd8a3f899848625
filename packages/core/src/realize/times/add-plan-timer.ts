import { type PlanTimer, planTimer } from '../plan/plan-timer.ts';

/** The timers of this rank, in the order in which they take plans. */
const timers = new Set<PlanTimer>();

/** Has `timer` take the plans of this rank, beside other timers, until the returned function is called. */
export function addPlanTimer(timer: PlanTimer): () => void {
  timers.add(timer);
  planTimer.current = (plan, nodes, sizes) => {
    let timed = plan;
    for (const each of timers) timed = each(timed, nodes, sizes);
    return timed;
  };
  return () => {
    timers.delete(timer);
    if (timers.size === 0) planTimer.current = null;
  };
}
