import type { Assembler } from '../assembler.ts';
import {
  at,
  indexed,
  r8,
  r9,
  rax,
  rcx,
  rdi,
  rdx,
  rsi,
  rsp,
  type Vector,
  xmm,
  ymm,
} from '../operands.ts';
import type { LoopVectors } from './loop-vectors.ts';
import { callNumber } from './loop-frame.ts';

const UNROLL = 4;

/**
 * Writes the routine that copies rows (wasm/move/row-copy.ts), with `loops` loops around a row. It is called with the
 * same numbers as the kernel, then the source's address and the target's.
 */
export function emitRowCopy(code: Assembler, { vector }: LoopVectors, loops: number): void {
  code.mov(rdx, callNumber(3 * loops));
  code.mov(rsi, callNumber(3 * loops + 1));
  code.mov(rdi, callNumber(3 * loops + 2));
  const nest = (depth: number): void => {
    if (depth === loops) {
      copyRow(code, vector);
      return;
    }
    const [count, sourceStep, targetStep] = [0, 1, 2].map((part) => callNumber(3 * depth + part));
    if (!count || !sourceStep || !targetStep) throw new RangeError('a loop has three numbers');
    const [next, end] = [code.label(), code.label()];
    code.mov(rax, count);
    code.cmp(rax, 0);
    code.jumpIf('equal', end);
    for (const register of [rsi, rdi, rax]) code.push(register);
    code.place(next);
    nest(depth + 1);
    code.add(rsi, sourceStep);
    code.add(rdi, targetStep);
    code.mov(rax, at(rsp));
    code.sub(rax, 1);
    code.store(at(rsp), rax);
    code.jumpIf('greater', next);
    for (const register of [rax, rdi, rsi]) code.pop(register);
    code.place(end);
  };
  nest(0);
  code.ret();
}

/** Copies a row of rdx bytes from rsi to rdi. Changes rcx, r8 and r9. */
function copyRow(code: Assembler, vector: (index: number) => Vector): void {
  const end = code.label();
  code.xor(rcx, rcx);
  const several = Array.from({ length: UNROLL }, (_, index) => vector(index));
  for (const vectors of [several, [vector(0)], [ymm(0)], [xmm(0)]]) {
    const placeOf = (base: typeof rsi, index: number): ReturnType<typeof at> =>
      indexed(base, rcx, 1, index * vector(0).byteLength);
    const bytes = vectors.reduce((sum, { byteLength }) => sum + byteLength, 0);
    eachStep(code, bytes, () => {
      for (const [index, of] of vectors.entries()) code.binary('vmovups', of, placeOf(rsi, index));
      for (const [index, of] of vectors.entries()) code.vstore('vmovups', placeOf(rdi, index), of);
    });
    code.cmp(rcx, rdx);
    code.jumpIf('equal', end);
  }
  eachStep(code, 8, () => {
    code.mov(r9, indexed(rsi, rcx));
    code.store(indexed(rdi, rcx), r9);
  });
  eachStep(code, 1, () => {
    code.load8(r9, indexed(rsi, rcx));
    code.store8(indexed(rdi, rcx), r9);
  });
  code.place(end);
}

/** Repeats the body as long as at least this many bytes are left. rcx counts the bytes that are done. */
function eachStep(code: Assembler, bytes: number, body: () => void): void {
  const [next, end] = [code.label(), code.label()];
  code.mov(r8, rdx);
  code.sub(r8, bytes);
  code.cmp(rcx, r8);
  code.jumpIf('greater', end);
  code.place(next);
  body();
  code.add(rcx, bytes);
  code.cmp(r8, rcx);
  code.jumpIf('notLess', next);
  code.place(end);
}
