import { range, type Schedule } from '../actions/schedule.ts';
import { RankProgram, repeat } from './rank-program.ts';
import { type FullShape, loopPlacement, refusal, scheduleOf } from './schedule-shape.ts';
import type { ComputeAction } from '../actions/action.ts';

/** Runs all forwards, then all backwards (Huang et al. 2019, arXiv 1811.06965). */
export function gpipe(shape: FullShape): Schedule {
  if (shape.stagesPerRank !== 1) {
    const found = `${shape.stagesPerRank} stages of one rank`;
    throw refusal('gpipe', shape, found, 'Take loopedBfs, which is GPipe with more stages');
  }
  return scheduleOf('gpipe', shape, loopPlacement(shape), (rank) => {
    const program = new RankProgram();
    repeat(shape.microbatches, () => program.forward(rank));
    repeat(shape.microbatches, () => program.backward(rank));
    return program.actions;
  });
}

/** Runs one microbatch after the other. At any time all ranks but one wait, and one microbatch is live. */
export function naive(shape: FullShape): Schedule {
  const placement = loopPlacement(shape);
  return scheduleOf('naive', shape, placement, (rank) => {
    const stages = range(placement.length).filter((stage) => placement[stage] === rank);
    return range(shape.microbatches).flatMap((microbatch): ComputeAction[] => [
      ...stages.map((stage) => ({ kind: 'forward' as const, stage, microbatch })),
      ...stages.toReversed().map((stage) => ({ kind: 'backward' as const, stage, microbatch })),
    ]);
  });
}

/**
 * Runs all microbatches of a stage before the rank's next stage, and the backwards in reverse, the last microbatch
 * first (Lamy-Poirier 2022, arXiv 2211.05953). The parameters of a stage are gathered only twice.
 */
export function loopedBfs(shape: FullShape): Schedule {
  const placement = loopPlacement(shape);
  const microbatches = range(shape.microbatches);
  return scheduleOf('loopedBfs', shape, placement, (rank): ComputeAction[] => {
    const stages = range(placement.length).filter((stage) => placement[stage] === rank);
    return [
      ...stages.flatMap((stage) =>
        microbatches.map((microbatch) => ({ kind: 'forward' as const, stage, microbatch })),
      ),
      ...stages
        .toReversed()
        .flatMap((stage) =>
          microbatches
            .toReversed()
            .map((microbatch) => ({ kind: 'backward' as const, stage, microbatch })),
        ),
    ];
  });
}
