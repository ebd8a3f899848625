import type { dist } from 'shardwise/browser';

/** What the page asks its ranks to train: a sequence of layers, cut into the stages of a schedule. */
export interface PipelineTask {
  readonly schedule: dist.schedules.ScheduleName;
  readonly microbatches: number;
}
