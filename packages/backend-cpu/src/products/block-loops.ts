import type { LaneLoop } from '../loops/lane-loop.ts';
import { type LoopCall, type LoopCode, loopNumbers } from '../loops/loop-code.ts';
import { callWords } from '../loops/loop-frame.ts';
import { laneBytes } from '../wasm/loop-spec.ts';
import type { KernelCall } from '../wasm/kernel-call.ts';
import { taskBytes } from './task-layout.ts';

/** A loop over the elements of a product's result, which may run on some of its rows. */
export interface BlockLoop extends LoopCall {
  readonly columns: number;
  readonly operands: LaneLoop['operands'];
}

/** What a product does with its result. */
export interface Epilogue {
  readonly loops: LoopCode;
  readonly calls: readonly BlockLoop[];
}

/** Words of a task behind its routine. */
const mostWords = taskBytes / 8 - 1;

/** The calls as loops of machine code. Undefined where it has not all that they take, or a task not all of their operands. */
export function blockLoopsOf(
  calls: readonly KernelCall[],
  code: LoopCode,
): readonly BlockLoop[] | undefined {
  const loops = calls.flatMap(({ key, loop, sizes: [rows = 0, columns = 0], values }) => {
    const routine = loop && code.routine(key, () => code.lanes(loop));
    const fits = callWords.addresses + values.length <= mostWords;
    if (loop === undefined || routine === undefined || !fits) return [];
    const numbers = loopNumbers(rows, columns);
    return [{ routine, numbers, columns, values, operands: code.lanes(loop).operands }];
  });
  return loops.length === calls.length ? loops : undefined;
}

/** An address that a call takes: that of a value, and so many bytes behind it. */
export interface CallAddress {
  readonly word: number;
  readonly value: number;
  readonly byteOffset: number;
}

/** The words of a call on some rows of a matrix with so many columns, and the addresses among them. */
export function callOnRows(
  { routine, columns, values, operands }: BlockLoop,
  matrixColumns: number,
  block: { readonly start: number; readonly size: number },
): { readonly words: readonly bigint[]; readonly addresses: readonly CallAddress[] } {
  const isByRows = columns === matrixColumns;
  const first = block.start * matrixColumns;
  const words = callWords.addresses + values.length;
  const ofRows = isByRows ? [block.size, columns] : [1, block.size * matrixColumns];
  const addresses = values.map((value, operand): CallAddress => {
    const { access = 'scalar', dtype = 'f32' } = operands[operand] ?? {};
    const elements = { element: first, row: block.start, column: 0, scalar: 0 }[access];
    const word = callWords.addresses + operand;
    return { word, value, byteOffset: laneBytes[dtype] * elements };
  });
  const numbers = [8 * words, ...ofRows, first].map(BigInt);
  return { words: [routine, ...numbers, ...values.map(() => 0n)], addresses };
}
