import { type FunctionBuilder, i32, type Local, usize } from '@shardwise/wasm-assembler';

export interface IndexLoop {
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
export function forEachIndex(
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
