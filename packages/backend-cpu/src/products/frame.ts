import { operandNames } from './task-layout.ts';

/** The addresses of the operands of tasks. */
export type Frame = BigUint64Array;

export function createFrame(): Frame {
  return new BigUint64Array(new ArrayBuffer(8 * operandNames.length));
}
