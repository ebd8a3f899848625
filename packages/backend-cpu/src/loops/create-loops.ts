import { loopMachine } from './loop-machine.ts';
import type { Loops } from './loops.ts';

export function createLoops(choice: 'own' | 'webassembly'): Loops {
  if (choice === 'webassembly') return withoutOwn('it was asked for');
  const machine = loopMachine();
  if (machine.kind === 'webassembly') return withoutOwn(machine.reason);
  return { by: { by: 'own', instructions: 'AVX-512' }, code: machine.code };
}

function withoutOwn(reason: string): Loops {
  return { by: { by: 'webassembly', reason }, code: null };
}
