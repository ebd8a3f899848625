import type { InstructionSet } from '../machine-code/instruction-sets.ts';
import { loopMachine } from './loop-machine.ts';
import type { Loops } from './loops.ts';

/** No instructions before `newest` are used. */
export function createLoops(choice: 'own' | 'webassembly', newest: InstructionSet): Loops {
  if (choice === 'webassembly') return withoutOwn('it was asked for');
  const machine = loopMachine(newest);
  if (machine.kind === 'webassembly') return withoutOwn(machine.reason);
  return { by: { by: 'own', instructions: machine.instructions }, code: machine.code };
}

function withoutOwn(reason: string): Loops {
  return { by: { by: 'webassembly', reason }, code: null };
}
