import { operandNames } from './task-layout.ts';

/** Where the operands of tasks lie. */
export type Frame = BigUint64Array;

export function createFrame(): Frame {
  return new BigUint64Array(new ArrayBuffer(8 * operandNames.length));
}
