import { elementCount } from '@shardwise/core/base';
import { type CpuInstruction } from '../../program/instruction.ts';
import type { Arena } from '../../memory/arena.ts';
import { viewAt } from './view-at.ts';
import type { RunLoop } from './run-loop.ts';
import type { PlannedLoop } from '../../plan/partition/fallback-engine.ts';

/** Whether an instruction has no inputs. */
export function isLeaf({ op }: CpuInstruction): boolean {
  return op === 'constant' || op === 'iota';
}

/** Links a loop that reads nothing. */
export function linkLeaf({ memory }: Arena, { instruction }: PlannedLoop): RunLoop {
  if (instruction.op !== 'constant' && instruction.op !== 'iota')
    throw new RangeError(`${instruction.op} has inputs`);
  const { output, shape } = instruction;
  const count = elementCount(shape);
  if (instruction.op === 'constant') {
    const { value, dtype } = instruction.params;
    if (dtype === 'i64') {
      return (addressOf) => viewAt(memory, 'i64', addressOf(output), count).fill(BigInt(value));
    }
    if (dtype === 'f16' || dtype === 'bf16') throw new RangeError('kernels have values of 16 bits');
    return (addressOf) => viewAt(memory, dtype, addressOf(output), count).fill(value);
  }
  const size = shape[instruction.params.dim] ?? 1;
  const inner = elementCount(shape.slice(instruction.params.dim + 1));
  return (addressOf) => {
    const to = viewAt(memory, 'i32', addressOf(output), count);
    for (let first = 0, place = 0; first < count; first += inner, place = (place + 1) % size) {
      to.fill(place, first, first + inner);
    }
  };
}
