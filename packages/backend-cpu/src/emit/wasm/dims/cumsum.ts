import { type FunctionBuilder, i32x4, usize } from '@shardwise/wasm-assembler';
import { DimWriter } from './dim-writer.ts';
import { WideLanes } from './wide-lanes.ts';

/**
 * Writes the kernel of running sums. f32 is summed in f64. Shape: x [outer, size, inner] -> [outer, size, inner].
 * Addresses: x, y.
 */
export function cumsum(dtype: 'f32' | 'i32', reverse: boolean): FunctionBuilder {
  const writer = new DimWriter(2);
  const { fn, size, strideBytes } = writer;
  const [x, y] = [writer.address(0), writer.address(1)];
  const last = fn.let(usize.mul(strideBytes, usize.sub(size, usize.const(1))));
  const step = fn.let(reverse ? usize.sub(usize.const(0), strideBytes) : strideBytes);
  writer.eachColumn(({ start, load, store }) => {
    const offset = fn.let(reverse ? usize.add(start, last) : start);
    const wide = dtype === 'f32' ? new WideLanes(fn) : undefined;
    const total = fn.let(fn.int(0));
    const index = fn.let(usize.const(0));
    fn.forSteps(index, 1, size, () => {
      const value = load(usize.add(x, offset), 0);
      if (wide === undefined) fn.set(total, i32x4.add(total, value));
      else wide.add(value);
      store(usize.add(y, offset), wide?.rounded() ?? total, 0);
      fn.set(offset, usize.add(offset, step));
    });
  });
  return fn;
}
