import type { Assembler } from './assembler.ts';
import { type Memory, r12, r13, r14, r15, rax, rbp, rbx, type Register } from './operands.ts';

/** Registers that a function must not change. */
const kept: readonly Register[] = [rbx, rbp, r12, r13, r14, r15];

export interface CallsOptions {
  /** Writes code that makes r15 point to the first call. */
  readonly begin: () => void;
  /** The place of the address of the routine of the call at r15. The address is 0 behind the last call. */
  readonly routine: Memory;
  /** Writes code that prepares what the routine reads. */
  readonly prepare?: () => void;
  /** The distance from a call to the next one, in bytes. */
  readonly byteLength: Memory | number;
}

/** Writes a function that JavaScript calls. It calls the routine of each call in turn. */
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
