import {
  type Code,
  FunctionBuilder,
  i32,
  type Local,
  usize,
  v128,
} from '@shardwise/wasm-assembler';
import type { View } from '../../../program/view.ts';

const WORD_BYTES = 4;
const HALF_BYTES = 2;
const BYTE_BYTES = 1;
const VECTOR_BYTES = 16;
const UNROLL = 4;

/** A copy of rows from one view to another, in the form that its kernel takes. */
export interface RowCopy {
  /** How many loops there are around a row. Kernels with the same number of loops have the same code. */
  readonly loops: number;
  /** For each loop, its count, the source's step and the target's step in bytes. Then the bytes of a row. */
  readonly sizes: readonly number[];
  readonly sourceBytes: number;
  readonly targetBytes: number;
}

interface Loop {
  readonly size: number;
  readonly source: number;
  readonly target: number;
}

/**
 * Plans the copy between two views of the same shape. Innermost elements that are adjacent on both sides become rows.
 * Dims that continue each other on both sides become one loop.
 */
export function rowCopyOf(source: View, target: View, elementBytes: number): RowCopy {
  const loops: Loop[] = [];
  source.dims.forEach(({ size, stride }, dim) => {
    if (size === 1) return;
    const next: Loop = { size, source: stride, target: target.dims[dim]?.stride ?? 0 };
    const outer = loops.at(-1);
    const continues = outer?.source === next.source * size && outer.target === next.target * size;
    if (outer === undefined || !continues) loops.push(next);
    else loops.splice(-1, 1, { ...next, size: size * outer.size });
  });
  const last = loops.at(-1);
  const hasRow = last?.source === 1 && last.target === 1;
  const around = hasRow ? loops.slice(0, -1) : loops;
  const columns = hasRow ? last.size : 1;
  const sizes = around.flatMap((loop) => [
    loop.size,
    loop.source * elementBytes,
    loop.target * elementBytes,
  ]);
  return {
    loops: around.length,
    sizes: [...sizes, columns * elementBytes],
    sourceBytes: source.elementOffset * elementBytes,
    targetBytes: target.elementOffset * elementBytes,
  };
}

/** The key of kernels and routines with this many loops around a row. */
export function rowCopyKey(loops: number): string {
  return `copy rows ${loops}`;
}

/** Writes the kernel that copies rows. Parameters: RowCopy.sizes, the source's address, the target's address. */
export function rowCopyKernel(loops: number): FunctionBuilder {
  const fn = new FunctionBuilder(3 * loops + 3);
  const rowBytes = fn.parameter(3 * loops);
  const nest = (depth: number, source: Local<'usize'>, target: Local<'usize'>): void => {
    if (depth === loops) return copyRow(fn, rowBytes, source, target);
    const [count, sourceStep, targetStep] = [0, 1, 2].map((part) => fn.parameter(3 * depth + part));
    if (!count || !sourceStep || !targetStep) throw new RangeError('a loop has three parameters');
    const index = fn.let(usize.const(0));
    const from = fn.let(source);
    const to = fn.let(target);
    fn.forSteps(index, 1, count, () => {
      nest(depth + 1, from, to);
      fn.set(from, usize.add(from, sourceStep));
      fn.set(to, usize.add(to, targetStep));
    });
  };
  nest(0, fn.parameter(3 * loops + 1), fn.parameter(3 * loops + 2));
  return fn;
}

function copyRow(
  fn: FunctionBuilder,
  rowBytes: Code<'usize'>,
  source: Local<'usize'>,
  target: Local<'usize'>,
): void {
  const done = fn.let(usize.const(0));
  const from = (): Code<'usize'> => usize.add(source, done);
  const to = (): Code<'usize'> => usize.add(target, done);
  fn.forSteps(done, UNROLL * VECTOR_BYTES, rowBytes, () => {
    const vectors = Array.from({ length: UNROLL }, (_, i) =>
      fn.let(v128.load(from(), i * VECTOR_BYTES)),
    );
    vectors.forEach((vector, i) => fn.do(v128.store(to(), vector, i * VECTOR_BYTES)));
  });
  fn.forSteps(done, VECTOR_BYTES, rowBytes, () => fn.do(v128.store(to(), v128.load(from()))));
  fn.forSteps(done, WORD_BYTES, rowBytes, () =>
    fn.do(v128.store32Lane0(to(), v128.load32Zero(from()))),
  );
  fn.forSteps(done, HALF_BYTES, rowBytes, () => fn.do(i32.store16(to(), i32.load16u(from()))));
  fn.forSteps(done, BYTE_BYTES, rowBytes, () => fn.do(i32.store8(to(), i32.load8u(from()))));
}
