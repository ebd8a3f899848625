import { type CpuInstruction, valueAt } from '../../program/instruction.ts';
import type { Arena } from '../../memory/arena.ts';
import type { RunLoop } from './run-loop.ts';
import type {
  FallbackEngine,
  FallbackPartition,
  PlannedLoop,
} from '../../plan/partition/fallback-engine.ts';
import { elementCount } from '@shardwise/core/base';
import { viewAt } from './view-at.ts';

/** Loops in JavaScript, and copies by WebAssembly, as what computes the instructions that kernels do not compute. */
export function plainFallback(arena: Arena): FallbackEngine {
  return {
    kind: 'plain',
    isChoice: () => false,
    withPreferred: (kinds) => kinds,
    plan: ({ values }, { instructions }): PlannedLoop => {
      const instruction = instructions.at(-1);
      if (instruction === undefined) throw new RangeError('a partition without an instruction');
      return {
        kind: 'plain',
        instruction,
        inputs: instruction.inputs.map((id) => valueAt(values, id)),
      };
    },
    takesSizes: () => true,
    acquire: async (pattern) => {
      const link = await linkerOf(own(pattern));
      return {
        link: (_, partition) => ({ run: link(arena, own(partition)) }),
        release: () => {},
      };
    },
  };
}

/**
 * Returns the function that links a loop. Models of layers and embeddings only need the loops of leaves, so all other
 * loops are loaded when a program has one.
 */
async function linkerOf({
  instruction,
}: PlannedLoop): Promise<(arena: Arena, loop: PlannedLoop) => RunLoop> {
  if (isLeaf(instruction)) return linkLeaf;
  const { linkLoop } = await import('./link-loop.ts');
  return linkLoop;
}

function own(partition: FallbackPartition): PlannedLoop {
  if (partition.kind === 'plain') return partition;
  throw new RangeError(`a partition of kind ${partition.kind} is no loop`);
}

/** Whether an instruction has no inputs. */
function isLeaf({ op }: CpuInstruction): boolean {
  return op === 'constant' || op === 'iota';
}

/** Links a loop that reads nothing. */
function linkLeaf({ memory }: Arena, { instruction }: PlannedLoop): RunLoop {
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
