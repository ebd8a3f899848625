import {
  type Code,
  f32x4,
  type FunctionBuilder,
  i32x4,
  type Local,
  usize,
  v128,
} from '@shardwise/wasm-assembler';
import { DimWriter } from './dim-writer.ts';

type Vector = Local<'v128'>;

/**
 * Writes the kernel of argMax. Shape: x [outer, size, inner] -> i32 [outer, inner]. Addresses: x, y. The first NaN
 * counts as the largest.
 */
export function argMax(dtype: 'f32' | 'i32'): FunctionBuilder {
  const writer = new DimWriter(2);
  const { fn, size, strideBytes } = writer;
  const [x, y] = [writer.address(0), writer.address(1)];
  writer.eachColumn(({ start, place, load, store }) => {
    const from = fn.let(usize.add(x, start));
    const best = load(from, 0);
    const bestIndex = fn.let(fn.int(0));
    const index = fn.let(usize.const(1));
    fn.forSteps(index, 1, size, () => {
      fn.set(from, usize.add(from, strideBytes));
      const value = load(from, 0);
      const isBetter = fn.let(dtype === 'f32' ? floatBetter(value, best) : i32x4.ltS(best, value));
      fn.set(best, v128.bitselect(value, best, isBetter));
      fn.set(bestIndex, v128.bitselect(i32x4.splat(usize.toI32(index)), bestIndex, isBetter));
    });
    store(usize.add(y, place), bestIndex, 0);
  });
  return fn;
}

function floatBetter(value: Vector, best: Vector): Code<'v128'> {
  const isFirstNaN = v128.and(f32x4.ne(value, value), f32x4.eq(best, best));
  return v128.or(f32x4.lt(best, value), isFirstNaN);
}
