import { type Code, i32, i64 } from '@shardwise/wasm-assembler';

export type ElementBytes = 1 | 2 | 4 | 8;

/** Copies one element of any dtype with this size. */
export function copyElement(
  target: Code<'usize'>,
  source: Code<'usize'>,
  elementBytes: ElementBytes,
): Code<'nothing'> {
  switch (elementBytes) {
    case 1:
      return i32.store8(target, i32.load8u(source));
    case 2:
      return i32.store16(target, i32.load16u(source));
    case 4:
      return i32.store(target, i32.load(source));
    case 8:
      return i64.store(target, i64.load(source));
    default:
      return elementBytes satisfies never;
  }
}
