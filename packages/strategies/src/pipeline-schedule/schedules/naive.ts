import type { ComputeAction } from '../actions/action.ts';
import { range, type Schedule } from '../actions/schedule.ts';
import { type FullShape, loopPlacement, scheduleOf } from './schedule-shape.ts';

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
