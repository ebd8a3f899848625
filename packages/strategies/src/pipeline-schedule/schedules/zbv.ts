import type { ComputeAction } from '../actions/action.ts';
import type { Schedule } from '../actions/schedule.ts';
import { repeat } from './rank-program.ts';
import { type FullShape, requireTwoStages, scheduleOf, vPlacement } from './schedule-shape.ts';

/**
 * Has no bubble if F, I and W take equally long, and needs the memory of 1F1B's first rank on every rank (Qi et al.
 * 2023, section 6). A rank has one stage on the way down and one on the way up.
 */
export function zbv(shape: FullShape): Schedule {
  const { ranks, microbatches } = shape;
  requireTwoStages('zbv', shape);
  // With fewer microbatches than fill the pipeline, the pattern is made for as many as fill it, and missing ones are
  // left out.
  const filling = Math.max(2 * ranks - 1, microbatches);
  return scheduleOf('zbv', shape, vPlacement(shape), (rank) => {
    const down = { stage: rank, forwards: 0, inputs: 0, weights: 0 };
    const up = { stage: 2 * ranks - 1 - rank, forwards: 0, inputs: 0, weights: 0 };
    const actions: ComputeAction[] = [];
    const add = (kind: ComputeAction['kind'], stage: number, microbatch: number): void => {
      if (microbatch < microbatches) actions.push({ kind, stage, microbatch });
    };
    const forward = (chunk: typeof down): void => add('forward', chunk.stage, chunk.forwards++);
    const input = (chunk: typeof down): void => add('inputGradient', chunk.stage, chunk.inputs++);
    const weight = (chunk: typeof down): void =>
      add('weightGradient', chunk.stage, chunk.weights++);
    const backward = (chunk: typeof down): void => {
      input(chunk);
      weight(chunk);
    };

    repeat(2 * (ranks - rank) - 1, () => forward(down));
    repeat(rank, () => {
      forward(up);
      forward(down);
    });
    repeat(ranks - rank, () => {
      forward(up);
      backward(up);
    });
    while (up.forwards < filling) {
      if (down.forwards < filling) forward(down);
      backward(down);
      forward(up);
      backward(up);
    }
    repeat(rank, () => {
      input(down);
      input(up);
    });
    repeat(ranks - rank, () => backward(down));
    while (up.weights < up.inputs) weight(up);
    while (down.weights < down.inputs) weight(down);
    return actions;
  });
}
