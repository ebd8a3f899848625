import {
  pipelineSchedule,
  type ScheduleName,
  simulateSchedule,
  type StageCosts,
} from '@shardwise/strategies';

/** What a schedule costs, counted in the time and the activations of one microbatch on one rank. */
export interface ScheduleFacts {
  /** The time in which a rank waits in a step, in microbatches: p - 1 for 1f1b. */
  readonly bubble: number;
  /** The most microbatches of which each rank keeps the activations of all its stages. */
  readonly inFlight: readonly number[];
}

const known = new Map<string, ScheduleFacts>();

/** With more microbatches than this for each rank, neither the bubble nor the memory changes. */
const STEADY = 4;

const inRounds: ReadonlySet<ScheduleName> = new Set(['interleaved1f1b', 'zb1p', 'zb2p']);

/** Whether a schedule can take so many microbatches. Some go through them in equal rounds of at least one for each rank. */
export function fillsRounds(schedule: ScheduleName, ranks: number, microbatches: number): boolean {
  if (!inRounds.has(schedule) || microbatches % ranks === 0) return true;
  // The rounds of the others may be longer. `scheduleFacts` plays no more than these.
  const rounds = Math.max(1, Math.floor(microbatches / ranks));
  const isPlayed = schedule !== 'interleaved1f1b' && microbatches <= STEADY * ranks;
  return isPlayed && microbatches % rounds === 0;
}

/**
 * Plays a schedule with equal stages, of which a forward, an input gradient and a weight gradient take a third of the
 * time each.
 */
export function scheduleFacts(
  schedule: ScheduleName,
  ranks: number,
  stagesPerRank: number,
  microbatches: number,
): ScheduleFacts {
  if (ranks === 1) return { bubble: 0, inFlight: [1] };
  const steady = STEADY * ranks;
  const played = microbatches <= steady ? microbatches : steady + (microbatches % ranks);
  const key = `${schedule} ${ranks} ${stagesPerRank} ${played}`;
  const found = known.get(key) ?? play(schedule, ranks, stagesPerRank, played);
  known.set(key, found);
  return found;
}

function play(
  name: ScheduleName,
  ranks: number,
  stagesPerRank: number,
  microbatches: number,
): ScheduleFacts {
  const schedule = pipelineSchedule(name, { ranks, stagesPerRank, microbatches });
  const third = 1 / (3 * stagesPerRank);
  const stage: StageCosts = {
    forwardMs: third,
    inputGradientMs: third,
    weightGradientMs: third,
    activationBytes: 1,
  };
  const stages = Array.from({ length: schedule.stages }, () => stage);
  const { makespanMs, ranks: simulated } = simulateSchedule(schedule, { stages });
  return {
    bubble: makespanMs - microbatches,
    inFlight: simulated.map(({ peakActivationBytes }) => peakActivationBytes / stagesPerRank),
  };
}
