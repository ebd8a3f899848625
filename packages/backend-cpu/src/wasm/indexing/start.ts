import { type FunctionBuilder, i32, type Local, memory } from '@shardwise/wasm-assembler';

/** What a sum over indices begins with: the elements of x, or zeros where x has nothing else. */
export type Start = 'copy' | 'zeros';

export function begin(
  fn: FunctionBuilder,
  start: Start,
  y: Local<'i32'>,
  x: Local<'i32'>,
  byteLength: Local<'i32'>,
): void {
  if (start === 'copy') fn.do(memory.copy(y, x, byteLength));
  else fn.do(memory.fill(y, i32.const(0), byteLength));
}
