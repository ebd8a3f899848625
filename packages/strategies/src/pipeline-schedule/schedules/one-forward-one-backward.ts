import type { Schedule } from '../actions/schedule.ts';
import { RankProgram, repeat } from './rank-program.ts';
import { type FullShape, loopPlacement, refusal, scheduleOf } from './schedule-shape.ts';

/**
 * A rank begins backwards as soon as the first gradient arrives, and then alternates one forward and one backward
 * (Narayanan et al. 2019, PipeDream). The number of live microbatches is at most the number of ranks from this one on.
 */
export function oneForwardOneBackward(shape: FullShape): Schedule {
  const { ranks, stagesPerRank, microbatches } = shape;
  if (stagesPerRank !== 1) {
    const found = `${stagesPerRank} stages of one rank`;
    throw refusal('1f1b', shape, found, 'Take interleaved1f1b, which is 1F1B with more stages');
  }
  return scheduleOf('1f1b', shape, loopPlacement(shape), (rank) => {
    const program = new RankProgram();
    const warmUp = Math.min(ranks - 1 - rank, microbatches);
    repeat(warmUp, () => program.forward(rank));
    repeat(microbatches - warmUp, () => {
      program.forward(rank);
      program.backward(rank);
    });
    repeat(warmUp, () => program.backward(rank));
    return program.actions;
  });
}
