import { type FunctionBuilder, i32, type Local } from '@shardwise/wasm-assembler';

export interface IndexLoop {
  readonly outerCount: Local<'i32'>;
  /** The indices there are, which are read anew for each outer item. */
  readonly indices: Local<'i32'>;
  readonly count: Local<'i32'>;
  /** Indices from 0 to `size` - 1 are in range. */
  readonly size: Local<'i32'>;
}

/**
 * Goes through the indices for each outer item, with `visit` for each and `next` behind each item. The function
 * ends with the place of the first index out of range, or -1.
 */
export function forEachIndex(
  fn: FunctionBuilder,
  { outerCount, indices, count, size }: IndexLoop,
  visit: (index: Local<'i32'>) => void,
  next: () => void,
): void {
  const outer = fn.let(i32.const(0));
  const row = fn.let(i32.const(0));
  fn.forSteps(outer, 1, outerCount, () => {
    fn.set(row, i32.const(0));
    fn.forSteps(row, 1, count, () => {
      const index = fn.let(i32.load(i32.add(indices, i32.shl(row, i32.const(2)))));
      fn.if(i32.geU(index, size), () => fn.return(row));
      visit(index);
    });
    next();
  });
  fn.return(i32.const(-1));
}
