import { type FunctionBuilder, i32, type Local, memory } from '@shardwise/wasm-assembler';

/** What a sum over indices begins with: the elements of x, or zeros if all of x is 0. */
export type Start = 'copy' | 'zeros';

export function begin(
  fn: FunctionBuilder,
  start: Start,
  y: Local<'usize'>,
  x: Local<'usize'>,
  byteLength: Local<'usize'>,
): void {
  if (start === 'copy') fn.do(memory.copy(y, x, byteLength));
  else fn.do(memory.fill(y, i32.const(0), byteLength));
}
