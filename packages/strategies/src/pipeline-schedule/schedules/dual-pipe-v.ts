import type { Schedule } from '../actions/schedule.ts';
import { RankProgram, repeat } from './rank-program.ts';
import {
  type FullShape,
  refusal,
  requireTwoStages,
  scheduleOf,
  vPlacement,
} from './schedule-shape.ts';

/**
 * Runs a forward of one stage and a backward of another at the same time, so that the messages of one hide behind the
 * other (DeepSeek's DualPipe, arXiv 2412.19437, on half the ranks).
 */
export function dualPipeV(shape: FullShape): Schedule {
  const { ranks, microbatches } = shape;
  requireTwoStages('dualPipeV', shape);
  if (microbatches < 2 * ranks) {
    const found = `fewer microbatches than the ${2 * ranks} stages`;
    throw refusal('dualPipeV', shape, found, `Take ${2 * ranks} microbatches or more, or zbv`);
  }
  return scheduleOf('dualPipeV', shape, vPlacement(shape), (rank) => {
    const program = new RankProgram();
    const [down, up] = [rank, 2 * ranks - 1 - rank];
    const later = ranks - 1 - rank;

    repeat(2 * later, () => program.forward(down));
    repeat(rank + 1, () => {
      program.forward(down);
      program.forward(up);
    });
    repeat(later, () => {
      program.inputGradient(up);
      program.weightGradient();
      program.forward(up);
    });
    repeat(microbatches - 2 * ranks + rank + 1, (turn) => {
      if (turn === 0 && later === 0) {
        // The last rank's first pair is done one by one, because then neither has to wait.
        program.forward(down);
        program.backward(up);
      } else {
        program.overlap(down, up);
      }
      program.overlap(up, down);
    });
    repeat(later, () => {
      program.backward(up);
      program.overlap(up, down);
    });
    // From the middle of the last backwards on, weight gradients are done when the rank would otherwise wait.
    const whole = rank + 1;
    repeat(2 * (rank + 1) + later, (turn) => {
      const isCoolDown = turn >= 2 * (rank + 1);
      if (isCoolDown) program.weightGradient();
      const stage = isCoolDown || turn % 2 === 1 ? down : up;
      if (turn < whole) program.backward(stage);
      else program.inputGradient(stage);
    });
    while (program.hasPendingWeights) program.weightGradient();
    return program.actions;
  });
}
