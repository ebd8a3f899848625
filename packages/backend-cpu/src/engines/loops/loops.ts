import type { VectorInstructions } from '../../emit/x64/processor.ts';
import type { LoopCode } from '../../lanes/loop-code.ts';
import type { InstructionSet } from '../../emit/x64/instruction-sets.ts';
import { loopMachine } from './loop-machine.ts';

/** What runs loops over elements and rows. If it is WebAssembly, it also says why. */
export type LoopsBy =
  | {
      readonly by: 'own';
      readonly instructions: VectorInstructions;
      /**
       * Why WebAssembly runs the most recent loops. It is there once the system has begun to refuse executable memory.
       */
      readonly refusal?: string;
    }
  | { readonly by: 'webassembly'; readonly reason: string };

/** What runs the loops of a backend. */
export interface Loops {
  readonly by: LoopsBy;
  /** Null if WebAssembly runs all loops. */
  readonly code: LoopCode | null;
}

/** Machine code uses no instructions that are newer than `newest`. */
export function createLoops(
  choice: 'own' | 'webassembly',
  newest: InstructionSet,
  machineOf: typeof loopMachine = loopMachine,
): Loops {
  if (choice === 'webassembly') return withoutOwn('it was asked for');
  const machine = machineOf(newest);
  if (machine.kind === 'webassembly') return withoutOwn(machine.reason);
  const { code, instructions } = machine;
  return {
    get by(): LoopsBy {
      const { refusal } = code;
      return { by: 'own', instructions, ...(refusal !== undefined && { refusal }) };
    },
    code,
  };
}

function withoutOwn(reason: string): Loops {
  return { by: { by: 'webassembly', reason }, code: null };
}
