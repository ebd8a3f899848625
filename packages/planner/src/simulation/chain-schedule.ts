import { type LoweredSchedule, lowerSchedule, pipelineSchedule } from '@shardwise/strategies';
import type { RunLayout } from '../cost/run-layout.ts';

/** Returns the schedule of a layout as its ranks execute it, with messages. */
export function chainSchedule(layout: RunLayout, microbatches: number): LoweredSchedule {
  const { pipelineParallel: ranks, stagesPerRank, schedule } = layout;
  return lowerSchedule(pipelineSchedule(schedule, { ranks, stagesPerRank, microbatches }));
}
