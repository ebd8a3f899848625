import { valueAt } from '../../program/instruction.ts';
import type { Arena } from '../../memory/arena.ts';
import { isLeaf, linkLeaf } from './leaves.ts';
import type { RunLoop } from './run-loop.ts';
import type { Rest, RestPiece, PlannedLoop } from '../../plan/partition/fallback-engine.ts';

/** Loops in JavaScript, and copies by WebAssembly, as what computes the steps that kernels do not compute. */
export function plainRest(arena: Arena): Rest {
  return {
    kind: 'plain',
    isChoice: () => false,
    withPreferred: (kinds) => kinds,
    plan: ({ values }, { steps }): PlannedLoop => {
      const step = steps.at(-1);
      if (step === undefined) throw new RangeError('a piece without a step');
      return { kind: 'plain', step, inputs: step.inputs.map((id) => valueAt(values, id)) };
    },
    takesSizes: () => true,
    acquire: async (pattern) => {
      const link = await linkerOf(own(pattern));
      return {
        link: (_, piece) => ({ run: link(arena, own(piece)) }),
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
  step,
}: PlannedLoop): Promise<(arena: Arena, loop: PlannedLoop) => RunLoop> {
  if (isLeaf(step)) return linkLeaf;
  const { linkLoop } = await import('./link-loop.ts');
  return linkLoop;
}

function own(piece: RestPiece): PlannedLoop {
  if (piece.kind === 'plain') return piece;
  throw new RangeError(`a piece of kind ${piece.kind} is no loop`);
}
