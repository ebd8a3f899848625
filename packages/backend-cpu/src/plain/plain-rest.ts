import type { Rest, RestPiece } from '../compile/rest.ts';
import { valueAt } from '../compile/step.ts';
import type { Arena } from '../memory/arena.ts';
import { isLeaf, linkLeaf } from './leaves.ts';
import type { PlannedLoop } from './planned-loop.ts';
import type { RunLoop } from './run-loop.ts';

/** Loops in JavaScript, and copies by WebAssembly, compute what kernels do not. */
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

/** Models of layers and embeddings have no such step but leaves, so the others are loaded where a program has one. */
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
