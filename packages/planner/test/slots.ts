import { pipelineSchedule, simulateSchedule } from '@shardwise/strategies';

/** The time in which a rank of 1f1b waits in a step, in those of a microbatch. */
export function scheduleFactsOf(ranks: number, microbatches: number): number {
  const schedule = pipelineSchedule('1f1b', { ranks, microbatches });
  const { makespanMs } = simulateSchedule(schedule);
  return makespanMs / 3 - microbatches;
}
