import {
  type Code,
  f32x4,
  FunctionBuilder,
  i32,
  i32x4,
  type Local,
  memory,
  usize,
  v128,
} from '@shardwise/wasm-assembler';
import { copyElement, type ElementBytes } from './copy-element.ts';
import { begin, type Start } from './start.ts';

/**
 * Writes the kernel that selects rows of x. Rows are `elementBytes` long, or of any length if it is undefined. Shape: x
 * [outer, size, row], indices [count] -> [outer, count, row]. Parameters: outer, size, count, the bytes of a row;
 * addresses: x, indices, y. The kernel returns the place of the first index out of range, or -1.
 */
export function selectRows(elementBytes: ElementBytes | undefined): FunctionBuilder {
  const fn = new FunctionBuilder(7);
  const [outerCount, size, count] = [fn.parameter(0), fn.parameter(1), fn.parameter(2)];
  const rowBytes = fn.parameter(3);
  const [x, indices, y] = [fn.parameter(4), fn.parameter(5), fn.parameter(6)];
  forEachIndex(
    fn,
    { outerCount, indices, count, size },
    (index) => {
      const from = usize.add(x, usize.mul(index, rowBytes));
      if (elementBytes === undefined) fn.do(memory.copy(y, from, rowBytes));
      else fn.do(copyElement(y, from, elementBytes));
      fn.set(y, usize.add(y, rowBytes));
    },
    () => fn.set(x, usize.add(x, usize.mul(size, rowBytes))),
  );
  return fn;
}

const LANES = 4;
const UNROLL = 4;
const VECTOR_BYTES = 16;

/**
 * Writes the kernel that adds rows at indices to x. Shape: x [outer, size, columns], indices [count], source [outer,
 * count, columns] -> [outer, size, columns]. Parameters: outer, size, count, columns, the bytes of y; addresses: x if
 * it is copied, indices, source, y. The kernel returns the place of the first index out of range, or -1.
 */
export function addRows(dtype: 'f32' | 'i32', start: Start): FunctionBuilder {
  const first = start === 'copy' ? 6 : 5;
  const fn = new FunctionBuilder(first + 3);
  const [outerCount, size, count] = [fn.parameter(0), fn.parameter(1), fn.parameter(2)];
  const [columns, byteLength] = [fn.parameter(3), fn.parameter(4)];
  const [indices, source, y] = [
    fn.parameter(first),
    fn.parameter(first + 1),
    fn.parameter(first + 2),
  ];
  begin(fn, start, y, fn.parameter(5), byteLength);
  const rowBytes = fn.let(usize.shl(columns, usize.const(2)));
  forEachIndex(
    fn,
    { outerCount, indices, count, size },
    (index) => {
      const target = fn.let(usize.add(y, usize.mul(index, rowBytes)));
      addRow(fn, dtype, target, source, columns);
      fn.set(source, usize.add(source, rowBytes));
    },
    () => fn.set(y, usize.add(y, usize.mul(size, rowBytes))),
  );
  return fn;
}

function addRow(
  fn: FunctionBuilder,
  dtype: 'f32' | 'i32',
  target: Local<'usize'>,
  source: Local<'usize'>,
  columns: Local<'usize'>,
): void {
  const add = dtype === 'f32' ? f32x4.add : i32x4.add;
  const column = fn.let(usize.const(0));
  const at = (row: Local<'usize'>): Code<'usize'> =>
    usize.add(row, usize.shl(column, usize.const(2)));
  const addVectors = (vectors: number): void => {
    for (let vector = 0; vector < vectors; vector++) {
      const bytes = vector * VECTOR_BYTES;
      const sum = add(v128.load(at(target), bytes), v128.load(at(source), bytes));
      fn.do(v128.store(at(target), sum, bytes));
    }
  };
  fn.forSteps(column, UNROLL * LANES, columns, () => addVectors(UNROLL));
  fn.forSteps(column, LANES, columns, () => addVectors(1));
  fn.forSteps(column, 1, columns, () => {
    const sum = add(v128.load32Splat(at(target)), v128.load32Splat(at(source)));
    fn.do(v128.store32Lane0(at(target), sum));
  });
}

interface IndexLoop {
  readonly outerCount: Local<'usize'>;
  /** The address of the indices, which are read again for each outer item. */
  readonly indices: Local<'usize'>;
  readonly count: Local<'usize'>;
  /** Indices from 0 to `size` - 1 are in range. */
  readonly size: Local<'usize'>;
}

/**
 * Writes loops over the indices for each outer item. `visit` writes the code for each index, and `next` the code behind
 * each item. The function returns the place of the first index out of range, or -1.
 */
function forEachIndex(
  fn: FunctionBuilder,
  { outerCount, indices, count, size }: IndexLoop,
  visit: (index: Local<'usize'>) => void,
  next: () => void,
): void {
  const outer = fn.let(usize.const(0));
  const row = fn.let(usize.const(0));
  fn.forSteps(outer, 1, outerCount, () => {
    fn.set(row, usize.const(0));
    fn.forSteps(row, 1, count, () => {
      const index = fn.let(
        usize.fromI32(i32.load(usize.add(indices, usize.shl(row, usize.const(2))))),
      );
      fn.if(usize.geU(index, size), () => fn.return(row));
      visit(index);
    });
    next();
  });
  fn.return(usize.const(-1));
}
