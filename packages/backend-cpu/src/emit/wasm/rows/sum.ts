import { f32, f32x4, f64, type FunctionBuilder, usize } from '@shardwise/wasm-assembler';
import { cast } from '../../../lanes/cast.ts';
import { RowWriter } from './row-writer.ts';
import { type Cursor, floats, type Vector } from '../../../lanes/rows.ts';

/** How many elements are summed in f32 before the sum is added to one in f64, so that long sums keep their digits. */
const BLOCK = 2048;
const ROWS_AT_ONCE = 4;

/** Writes the kernel that sums each row. Shape: x [rows, columns] -> [rows]. Addresses: x, y. */
export function sumColumns(): FunctionBuilder {
  const writer = new RowWriter(floats(2));
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
    fn.do(f32.store(y.place, f32.demote(total)));
    writer.advance(y, usize.const(1));
  });
  return fn;
}

/**
 * Writes the kernel that sums over rows. Shape: x [outer, rows, columns] of f32 or bf16 -> f32 [outer, columns].
 * Parameters: rows, columns, then as addresses: outer (a count), x, y.
 */
export function sumRows(dtype: 'f32' | 'bf16' = 'f32'): FunctionBuilder {
  const writer = new RowWriter(['u8', dtype, 'f32']);
  const { fn, rows, columns } = writer;
  const [{ place: outerCount }, x, y] = [writer.address(0), writer.address(1), writer.address(2)];
  const load = (at: Cursor<typeof x>, row: typeof x): Vector =>
    fn.let(cast({ fn, dtype: 'f32', inputDType: dtype }, at.load(row)));
  const outer = fn.let(usize.const(0));
  const row = fn.let(usize.const(0));
  fn.forSteps(outer, 1, outerCount, () => {
    writer.each((at) => at.store(y, fn.float(0)), 4);
    fn.set(row, usize.const(0));
    fn.forSteps(row, ROWS_AT_ONCE, rows, () => {
      const pointers = [{ ...x, place: fn.let(x.place) }];
      for (let i = 1; i < ROWS_AT_ONCE; i++) {
        const pointer = { ...x, place: fn.let(pointers[i - 1]?.place ?? x.place) };
        writer.advance(pointer, columns);
        pointers.push(pointer);
      }
      writer.each((at) => {
        const parts = pointers.map((pointer) => load(at, pointer));
        const [a = fn.float(0), b = a, c = a, d = a] = parts;
        const sum = f32x4.add(f32x4.add(a, b), f32x4.add(c, d));
        at.store(y, f32x4.add(at.load(y), sum));
      }, 2);
      writer.advance(x, usize.mul(columns, usize.const(ROWS_AT_ONCE)));
    });
    fn.forSteps(row, 1, rows, () => {
      writer.each((at) => at.store(y, f32x4.add(at.load(y), load(at, x))), 2);
      writer.advance(x, columns);
    });
    writer.advance(y, columns);
  });
  return fn;
}
