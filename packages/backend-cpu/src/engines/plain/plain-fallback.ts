import { valueAt } from '../../program/instruction.ts';
import type { Arena } from '../../memory/arena.ts';
import { isLeaf, linkLeaf } from './leaves.ts';
import type { RunLoop } from './run-loop.ts';
import type {
  FallbackEngine,
  FallbackPartition,
  PlannedLoop,
} from '../../plan/partition/fallback-engine.ts';

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
