import type { Rest, RestPiece } from '../compile/rest.ts';
import { valueAt } from '../compile/step.ts';
import type { Arena } from '../memory/arena.ts';
import { linkLoop } from './link-loop.ts';
import type { PlannedLoop } from './planned-loop.ts';

/** Loops in JavaScript, and copies by WebAssembly, compute what kernels do not. */
export function plainRest(arena: Arena): Rest {
  return {
    kind: 'plain',
    isChoice: () => false,
    plan: ({ values }, { steps }): PlannedLoop => {
      const step = steps.at(-1);
      if (step === undefined) throw new RangeError('a piece without a step');
      return { kind: 'plain', step, inputs: step.inputs.map((id) => valueAt(values, id)) };
    },
    takesSizes: () => true,
    acquire: () => ({
      link: (_, piece) => ({ run: linkLoop(arena, own(piece)) }),
      release: () => {},
    }),
  };
}

function own(piece: RestPiece): PlannedLoop {
  if (piece.kind === 'plain') return piece;
  throw new RangeError(`a piece of kind ${piece.kind} is no loop`);
}
