import { type LoopCode, loopMachine } from './loop-machine.ts';

/** What runs loops over elements and rows, and why WebAssembly does where it does. */
export type LoopsBy =
  | { readonly by: 'own'; readonly instructions: 'AVX-512' }
  | { readonly by: 'webassembly'; readonly reason: string };

/** What runs the loops of a backend. */
export interface Loops {
  readonly by: LoopsBy;
  /** Null for WebAssembly alone. */
  readonly code: LoopCode | null;
}

export function createLoops(choice: 'own' | 'webassembly'): Loops {
  if (choice === 'webassembly') return withoutOwn('it was asked for');
  const machine = loopMachine();
  if (machine.kind === 'webassembly') return withoutOwn(machine.reason);
  return { by: { by: 'own', instructions: 'AVX-512' }, code: machine.code };
}

function withoutOwn(reason: string): Loops {
  return { by: { by: 'webassembly', reason }, code: null };
}
