import type { ComputeAction } from '../actions/action.ts';
import { range, type Schedule } from '../actions/schedule.ts';
import { type FullShape, requireTwoStages, scheduleOf, vPlacement } from './schedule-shape.ts';

/**
 * The times at which a rank does the work of the first microbatch, in units of one computation: its forwards on the way
 * down and up the ranks, and its input gradients on the way back.
 */
interface Block {
  readonly forwardDown: number;
  readonly forwardUp: number;
  readonly inputUp: number;
  readonly inputDown: number;
}

/** The units between two microbatches. A block has 2 forwards, 2 input gradients and 2 weight gradients. */
const PERIOD = 6;

/**
 * With many ranks it needs half of 1F1B's memory (Qi et al. 2024, Pipeline Parallelism with Controllable Memory, arXiv
 * 2405.15362). The last step of the paper, which moves work of warm-up and cool-down forward, is left out.
 */
export function vHalf(shape: FullShape): Schedule {
  return blockSchedule('vHalf', shape, (rank, ranks) => {
    const delay = ranks % 2 === 0 ? 3 : 0;
    return {
      forwardDown: 2 * rank,
      forwardUp: 3 * ranks - 2 - rank,
      inputUp: 3 * ranks + delay - 1 + 2 * rank,
      inputDown: 6 * ranks + delay - 2 - rank,
    };
  });
}

/** With many ranks it needs a third of 1F1B's memory, and has a larger bubble (same source). */
export function vMin(shape: FullShape): Schedule {
  return blockSchedule('vMin', shape, (rank, ranks) => {
    const delay = ranks % 3 === 0 ? 2 : 0;
    return {
      forwardDown: rank,
      forwardUp: 2 * ranks - 1 - rank,
      inputUp: 2 * ranks + delay + rank,
      inputDown: 4 * ranks + delay - 1 - rank,
    };
  });
}

function blockSchedule(
  name: string,
  shape: FullShape,
  blockOf: (rank: number, ranks: number) => Block,
): Schedule {
  const { ranks, microbatches } = shape;
  requireTwoStages(name, shape);
  return scheduleOf(name, shape, vPlacement(shape), (rank) => {
    const [down, up] = [rank, 2 * ranks - 1 - rank];
    const block = blockOf(rank, ranks);
    const timed = range(microbatches).flatMap((microbatch) => {
      const at = (unit: number, kind: ComputeAction['kind'], stage: number) => ({
        unit: unit + PERIOD * microbatch,
        action: { kind, stage, microbatch },
      });
      return [
        at(block.forwardDown, 'forward', down),
        at(block.forwardUp, 'forward', up),
        at(block.inputUp, 'inputGradient', up),
        at(block.inputDown, 'inputGradient', down),
      ];
    });
    timed.sort((a, b) => a.unit - b.unit);
    return withWeightGradients(timed);
  });
}

/** Puts each weight gradient into the first unit after its input gradient in which the rank has nothing else to do. */
function withWeightGradients(
  timed: readonly { readonly unit: number; readonly action: ComputeAction }[],
): ComputeAction[] {
  const actions: ComputeAction[] = [];
  const pending: ComputeAction[] = [];
  let free = 0;
  for (const { unit, action } of timed) {
    for (; free < unit; free++) actions.push(...pending.splice(0, 1));
    actions.push(action);
    free = unit + 1;
    if (action.kind === 'inputGradient') pending.push({ ...action, kind: 'weightGradient' });
  }
  return [...actions, ...pending];
}
