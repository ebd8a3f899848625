import type { ClusterDescription } from '../cluster/cluster.ts';
import type { Workload } from '../cost/run-layout.ts';
import type { ModelDescription } from '../model/model-description.ts';
import { type Change, changesThatFit } from './changes.ts';
import type { SearchResult } from './found-layouts.ts';
import { type Goal, type PlanTrainingOptions, requestOf } from './search-request.ts';
import { visitLayouts } from './visit-layouts.ts';

/** What `planTraining` finds. It is data. */
export interface TrainingPlan extends SearchResult {
  readonly model: ModelDescription;
  readonly cluster: ClusterDescription;
  readonly workload: Workload;
  readonly goal: Goal;
  readonly memoryBytes: number;
  /** If nothing fits: the smallest changes after which something does. */
  readonly changes: readonly Change[];
}

/**
 * Searches the layouts in which a model can be trained on a cluster: data parallelism with ZeRO or hybrid sharding,
 * tensor, sequence, expert and pipeline parallelism with their schedules, microbatches, what is computed again in
 * each layer, and what is kept on the host. Nothing is computed but costs.
 *
 * Throws ConfigError for unknown names, and for options out of range.
 */
export function planTraining(options: PlanTrainingOptions): TrainingPlan {
  const request = requestOf(options);
  const { model, cluster, workload, goal, memoryBytes } = request;
  const result = visitLayouts(request);
  const changes = result.ranked.length > 0 ? [] : changesThatFit(request, result.smallest);
  return { model, cluster, workload, goal, memoryBytes, ...result, changes };
}
