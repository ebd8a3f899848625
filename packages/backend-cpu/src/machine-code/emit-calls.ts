import type { Assembler } from './assembler.ts';
import { type Memory, r12, r13, r14, r15, rax, rbp, rbx, type Register } from './operands.ts';

/** Registers that a function leaves as they were. */
const kept: readonly Register[] = [rbx, rbp, r12, r13, r14, r15];

export interface CallsOptions {
  /** Has r15 point to the first call. */
  readonly begin: () => void;
  /** The address of the routine of the call at r15, 0 after the last one. */
  readonly routine: Memory;
  /** Makes ready what the routine reads. */
  readonly prepare?: () => void;
  /** From a call to the next one. */
  readonly byteLength: Memory | number;
}

/** A function that JavaScript calls: it calls one routine after the other. */
export function emitCalls(
  code: Assembler,
  { begin, routine, prepare, byteLength }: CallsOptions,
): void {
  for (const register of kept) code.push(register);
  begin();
  const [next, done] = [code.label(), code.label()];
  code.place(next);
  code.mov(rax, routine);
  code.cmp(rax, 0);
  code.jumpIf('equal', done);
  prepare?.();
  code.call(rax);
  code.add(r15, byteLength);
  code.jump(next);
  code.place(done);
  code.vzeroupper();
  for (const register of kept.toReversed()) code.pop(register);
  code.ret();
}
