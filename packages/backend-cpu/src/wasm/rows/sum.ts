import { dtypes } from '@shardwise/core/spec';
import {
  f32,
  f32x4,
  f64,
  type FunctionBuilder,
  type Local,
  usize,
} from '@shardwise/wasm-assembler';
import { RowWriter, type WasmCursor } from './row-writer.ts';

/** Elements summed in f32 before the f64 sum takes over; long sums keep their digits this way. */
const BLOCK = 2048;
const ROWS_AT_ONCE = 4;

/** Shape: x [rows, columns] -> [rows]. Addresses: x, y. */
export function sumColumns(): FunctionBuilder {
  const writer = new RowWriter(2);
  const { fn, columns } = writer;
  const [x, y] = [writer.address(0), writer.address(1)];
  writer.eachRow([], () => {
    const total = fn.let(f64.const(0));
    const left = fn.let(columns);
    fn.while(usize.ltU(usize.const(0), left), () => {
      const count = fn.let(columns);
      fn.set(count, left);
      fn.if(usize.ltU(usize.const(BLOCK), left), () => fn.set(count, usize.const(BLOCK)));
      const [sum = fn.float(0)] = writer.fold(['sum'], (at) => [at.load(x)], count);
      fn.set(total, f64.add(total, f64.promote(f32x4.extractLane(sum, 0))));
      writer.advance(x, count);
      fn.set(left, usize.sub(left, count));
    });
    fn.do(f32.store(y, f32.demote(total)));
    writer.advance(y, usize.const(1));
  });
  return fn;
}

/**
 * Shape: x [outer, rows, columns] of f32 or bf16 -> f32 [outer, columns].
 * Parameters: rows, columns, then as addresses: outer (a count), x, y.
 */
export function sumRows(dtype: 'f32' | 'bf16' = 'f32'): FunctionBuilder {
  const { bytes } = dtypes[dtype];
  const load = (at: WasmCursor, row: Local<'usize'>): Local<'v128'> =>
    dtype === 'f32' ? at.load(row) : at.loadHalves(row);
  const writer = new RowWriter(3);
  const { fn, rows, columns } = writer;
  const [outerCount, x, y] = [writer.address(0), writer.address(1), writer.address(2)];
  const outer = fn.let(usize.const(0));
  const row = fn.let(usize.const(0));
  fn.forSteps(outer, 1, outerCount, () => {
    writer.each((at) => at.store(y, fn.float(0)), 4);
    fn.set(row, usize.const(0));
    fn.forSteps(row, ROWS_AT_ONCE, rows, () => {
      const pointers = [fn.let(x)];
      for (let i = 1; i < ROWS_AT_ONCE; i++) {
        const pointer = fn.let(pointers[i - 1] ?? x);
        writer.advance(pointer, columns, bytes);
        pointers.push(pointer);
      }
      writer.each((at) => {
        const parts = pointers.map((pointer) => load(at, pointer));
        const [a = fn.float(0), b = a, c = a, d = a] = parts;
        const sum = f32x4.add(f32x4.add(a, b), f32x4.add(c, d));
        at.store(y, f32x4.add(at.load(y), sum));
      }, 2);
      writer.advance(x, usize.mul(columns, usize.const(ROWS_AT_ONCE)), bytes);
    });
    fn.forSteps(row, 1, rows, () => {
      writer.each((at) => at.store(y, f32x4.add(at.load(y), load(at, x))), 2);
      writer.advance(x, columns, bytes);
    });
    writer.advance(y, columns);
  });
  return fn;
}
