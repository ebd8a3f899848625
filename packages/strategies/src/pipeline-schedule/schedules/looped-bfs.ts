import type { ComputeAction } from '../actions/action.ts';
import { range, type Schedule } from '../actions/schedule.ts';
import { type FullShape, loopPlacement, scheduleOf } from './schedule-shape.ts';

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
