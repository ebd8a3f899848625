import type { InstructionSet } from '../../emit/x64/instruction-sets.ts';
import { loopMachine } from './loop-machine.ts';
import type { Loops, LoopsBy } from './loops.ts';

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
