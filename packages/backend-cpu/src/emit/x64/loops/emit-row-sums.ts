import type { Assembler } from '../assembler.ts';
import {
  at,
  indexed,
  type Memory,
  r10,
  r11,
  r12,
  r13,
  r9,
  rax,
  rbx,
  rcx,
  rdi,
  rdx,
  rsi,
  rsp,
  type Vector,
  xmm,
  ymm,
} from '../operands.ts';
import { callNumber } from './loop-frame.ts';
import type { LoopVectors } from './loop-vectors.ts';

/** Memory below the stack pointer. A routine that calls no other one may use it. */
const below = at(rsp, -64);
const FLOAT_BYTES = 4;

/** Adjacent columns that are summed together: whole vectors, or one column that fills all elements of a vector. */
interface Strip {
  readonly width: number;
  readonly vector: (index: number) => Vector;
  /** How many columns a vector has. */
  readonly columns: number;
}

/**
 * Writes the routine that sums over rows (wasm/rows/sum.ts). It takes the same numbers and addresses as the kernel, and
 * adds in the same order: four rows are added to each other, and then to the sum. Sums stay in registers while all rows
 * pass by.
 */
export function emitRowSums(code: Assembler, vectors: LoopVectors, dtype: 'f32' | 'bf16'): void {
  const bytes = dtype === 'f32' ? 4 : 2;
  const [rows, columns, outer] = [0, 1, 2].map(callNumber);
  if (!rows || !columns || !outer) throw new RangeError('three numbers');
  const { vector, lanes, registers } = vectors;
  const strips: Strip[] = [
    { width: registers / 4, vector, columns: lanes },
    { width: 1, vector, columns: lanes },
    ...(lanes === 16 ? [{ width: 1, vector: ymm, columns: 8 }] : []),
    { width: 1, vector: xmm, columns: 4 },
    { width: 1, vector: xmm, columns: 1 },
  ];
  const [nextMatrix, end] = [code.label(), code.label()];
  code.mov(rsi, callNumber(3));
  code.mov(rdi, callNumber(4));
  code.mov(r10, columns);
  for (let double = 1; double < bytes; double *= 2) code.add(r10, r10);
  code.lea(r11, indexed(r10, r10, 2));
  code.mov(r13, outer);
  code.cmp(r13, 0);
  code.jumpIf('equal', end);
  code.place(nextMatrix);
  code.mov(rbx, columns);
  for (const strip of strips) {
    const count = strip.width * strip.columns;
    const [next, done] = [code.label(), code.label()];
    code.place(next);
    code.cmp(rbx, count);
    code.jumpIf('less', done);
    emitStrip(code, strip, dtype, rows);
    code.add(rsi, count * bytes);
    code.add(rdi, count * FLOAT_BYTES);
    code.sub(rbx, count);
    code.jump(next);
    code.place(done);
  }
  // rsi is at the end of the first row. The next matrix begins `rows - 1` rows further.
  code.mov(rax, rows);
  code.sub(rax, 1);
  code.imul(rax, r10);
  code.add(rsi, rax);
  code.sub(r13, 1);
  code.jumpIf('greater', nextMatrix);
  code.place(end);
  code.ret();
}

/**
 * Sums one strip. rsi: the first row of the strip. rdi: its sums. r10: bytes from row to row. r11: three times as many.
 * Changes r9, rcx, rdx and r12.
 */
function emitStrip(code: Assembler, strip: Strip, dtype: 'f32' | 'bf16', rows: Memory): void {
  const { width, vector, columns } = strip;
  const bytes = dtype === 'f32' ? 4 : 2;
  const sums = Array.from({ length: width }, (_, index) => vector(index));
  const [first, second, third] = [0, 1, 2].map((index) => vector(width + index));
  if (!first || !second || !third) throw new RangeError('three vectors');
  const load = (target: Vector, place: Memory): void => {
    if (dtype === 'f32') code.binary(columns === 1 ? 'vbroadcastss' : 'vmovups', target, place);
    else {
      code.binary(columns === 1 ? 'vpbroadcastw' : 'vpmovzxwd', target, place);
      code.shift('vpslld', target, target, 16);
    }
  };
  const places = (index: number): readonly Memory[] => {
    const displacement = index * columns * bytes;
    return [
      at(r9, displacement),
      indexed(r9, r10, 1, displacement),
      indexed(r9, r10, 2, displacement),
      indexed(r9, r11, 1, displacement),
    ];
  };
  for (const sum of sums) code.ternary('vxorps', sum, sum, sum);
  code.mov(r9, rsi);
  const rest = code.label();
  code.mov(rcx, rows);
  code.mov(rdx, rcx);
  code.shr(rcx, 2);
  code.and(rdx, 3);
  repeat(code, rcx, rest, () => {
    for (const [index, sum] of sums.entries()) {
      const [a, b, c, d] = places(index);
      if (!a || !b || !c || !d) throw new RangeError('four rows');
      load(first, a);
      load(second, b);
      code.ternary('vaddps', first, first, second);
      load(second, c);
      load(third, d);
      code.ternary('vaddps', second, second, third);
      code.ternary('vaddps', first, first, second);
      code.ternary('vaddps', sum, sum, first);
    }
    code.lea(r9, indexed(r9, r10, 4));
  });
  code.place(rest);
  const done = code.label();
  repeat(code, rdx, done, () => {
    for (const [index, sum] of sums.entries()) {
      load(first, at(r9, index * columns * bytes));
      code.ternary('vaddps', sum, sum, first);
    }
    code.add(r9, r10);
  });
  code.place(done);
  for (const [index, sum] of sums.entries()) {
    if (columns === 1) {
      code.vstore('vmovups', below, sum);
      code.mov(r12, below);
      code.store32(at(rdi), r12);
    } else code.vstore('vmovups', at(rdi, index * columns * FLOAT_BYTES), sum);
  }
}

/** Repeats the body `count` times. The register is 0 afterwards. If it is 0 before, the code jumps to `done`. */
function repeat(
  code: Assembler,
  count: typeof rcx,
  done: ReturnType<Assembler['label']>,
  body: () => void,
): void {
  const next = code.label();
  code.cmp(count, 0);
  code.jumpIf('equal', done);
  code.place(next);
  body();
  code.sub(count, 1);
  code.jumpIf('greater', next);
}
