import { elementCount, type Step } from '../../program/instruction.ts';
import type { Arena } from '../../memory/arena.ts';
import { viewAt } from './view-at.ts';
import type { RunLoop } from './run-loop.ts';
import type { PlannedLoop } from '../../plan/partition/fallback-engine.ts';

/** Whether a step has no inputs. */
export function isLeaf({ op }: Step): boolean {
  return op === 'constant' || op === 'iota';
}

/** Links a loop that reads nothing. */
export function linkLeaf({ memory }: Arena, { step }: PlannedLoop): RunLoop {
  if (step.op !== 'constant' && step.op !== 'iota') throw new RangeError(`${step.op} has inputs`);
  const { output, shape } = step;
  const count = elementCount(shape);
  if (step.op === 'constant') {
    const { value, dtype } = step.params;
    if (dtype === 'i64') {
      return (addressOf) => viewAt(memory, 'i64', addressOf(output), count).fill(BigInt(value));
    }
    if (dtype === 'f16' || dtype === 'bf16') throw new RangeError('kernels have values of 16 bits');
    return (addressOf) => viewAt(memory, dtype, addressOf(output), count).fill(value);
  }
  const size = shape[step.params.dim] ?? 1;
  const inner = elementCount(shape.slice(step.params.dim + 1));
  return (addressOf) => {
    const to = viewAt(memory, 'i32', addressOf(output), count);
    for (let first = 0, place = 0; first < count; first += inner, place = (place + 1) % size) {
      to.fill(place, first, first + inner);
    }
  };
}
