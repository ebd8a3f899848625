import type { Schedule } from '../actions/schedule.ts';
import { RankProgram, repeat } from './rank-program.ts';
import { type FullShape, loopPlacement, refusal, scheduleOf } from './schedule-shape.ts';

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
