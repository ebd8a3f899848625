import type { ComputeAction } from '../actions/action.ts';
import { range, type Schedule } from '../actions/schedule.ts';
import { type FullShape, loopPlacement } from './schedule-shape.ts';

/** Only forwards, as for evaluation and generation. */
export function forwardOnly(shape: FullShape): Schedule {
  return forwardsOf('forwardOnly', loopPlacement(shape), shape.ranks, shape.microbatches);
}

/**
 * Makes a schedule of only forwards, for any number of microbatches. Stages are on the same ranks as in another
 * schedule.
 */
export function evaluationOf(
  schedule: Schedule,
  microbatches: number = schedule.microbatches,
): Schedule {
  return forwardsOf(
    `${schedule.name}, forwards only`,
    schedule.rankOfStage,
    schedule.ranks,
    microbatches,
  );
}

/**
 * In each unit of time, a rank does the forward of its latest stage that is ready, so that microbatches leave early.
 */
function forwardsOf(
  name: string,
  rankOfStage: readonly number[],
  ranks: number,
  microbatches: number,
): Schedule {
  const stages = rankOfStage.length;
  const actions: ComputeAction[][] = range(ranks).map(() => []);
  const descending = range(ranks).map((rank) =>
    range(stages)
      .filter((stage) => rankOfStage[stage] === rank)
      .toReversed(),
  );
  const done = range(stages).map(() => 0);
  for (let left = stages * microbatches; left > 0;) {
    const before = [microbatches, ...done];
    const chosen = descending.map((own) =>
      own.find((stage) => (done[stage] ?? 0) < (before[stage] ?? 0)),
    );
    for (const [rank, stage] of chosen.entries()) {
      if (stage === undefined) continue;
      const microbatch = done[stage] ?? 0;
      actions[rank]?.push({ kind: 'forward', stage, microbatch });
      done[stage] = microbatch + 1;
      left--;
    }
  }
  return { name, ranks, stages, microbatches, forwardOnly: true, rankOfStage, actions };
}
