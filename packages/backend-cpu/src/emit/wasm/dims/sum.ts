import { f32x4, type FunctionBuilder, i32x4, usize } from '@shardwise/wasm-assembler';
import { DimWriter } from './dim-writer.ts';
import { WideLanes } from './wide-lanes.ts';

/** How many rows are summed in f32 before the sum is added to one in f64. */
const BLOCK = 64;
/** 64 columns. They are enough of each row at once to read memory in long runs. */
const VECTORS = 16;

/**
 * Writes the kernel of i32 sums, which wrap around. Shape: x i32 [outer, size, inner] -> [outer, inner]. Addresses: x,
 * y.
 */
export function sumIntegers(): FunctionBuilder {
  const writer = new DimWriter(2);
  const { fn, size, strideBytes } = writer;
  const [x, y] = [writer.address(0), writer.address(1)];
  writer.eachColumn(({ start, place, load, store }) => {
    const from = fn.let(usize.add(x, start));
    const total = fn.let(fn.int(0));
    const index = fn.let(usize.const(0));
    fn.forSteps(index, 1, size, () => {
      fn.set(total, i32x4.add(total, load(from, 0)));
      fn.set(from, usize.add(from, strideBytes));
    });
    store(usize.add(y, place), total, 0);
  });
  return fn;
}

/**
 * Writes the kernel of f32 sums that stay accurate over many rows. Shape: x [outer, size, inner] -> [outer, inner].
 * Addresses: x, y.
 */
export function sumManyRows(): FunctionBuilder {
  const writer = new DimWriter(2);
  const { fn, size, strideBytes } = writer;
  const [x, y] = [writer.address(0), writer.address(1)];
  writer.eachColumn(({ vectors, start, place, load, store }) => {
    const from = fn.let(usize.add(x, start));
    const totals = Array.from({ length: vectors }, () => new WideLanes(fn));
    const left = fn.let(size);
    fn.while(usize.ltU(usize.const(0), left), () => {
      const count = fn.let(left);
      fn.if(usize.ltU(usize.const(BLOCK), left), () => fn.set(count, usize.const(BLOCK)));
      const block = totals.map(() => fn.let(fn.float(0)));
      const row = fn.let(usize.const(0));
      fn.forSteps(row, 1, count, () => {
        block.forEach((sum, vector) => fn.set(sum, f32x4.add(sum, load(from, vector))));
        fn.set(from, usize.add(from, strideBytes));
      });
      block.forEach((sum, vector) => totals[vector]?.add(sum));
      fn.set(left, usize.sub(left, count));
    });
    totals.forEach((total, vector) => store(usize.add(y, place), total.rounded(), vector));
  }, VECTORS);
  return fn;
}
