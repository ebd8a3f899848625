import type { LaneLoop } from '../../lanes/lane-loop.ts';
import { laneBytes } from '../../lanes/loop-spec.ts';
import type { KernelCall } from '../../kernels/kernel-call.ts';
import { TASK_BYTES } from '../../emit/products/task-layout.ts';
import { type LoopCall, type LoopCode, loopNumbers, callWords } from '../../lanes/loop-code.ts';

/** A loop over the elements of a product's result. It can run on some of the result's rows. */
export interface BlockLoop extends LoopCall {
  readonly columns: number;
  readonly operands: LaneLoop['operands'];
}

/** The loops that a product runs on its result. */
export interface Epilogue {
  readonly loops: LoopCode;
  readonly calls: readonly BlockLoop[];
}

/** The number of words in a task, without the word of its routine. */
const mostWords = TASK_BYTES / 8 - 1;

/**
 * Returns the calls as loops in machine code. Returns undefined if machine code cannot run one of them, or if its
 * operands do not fit into a task.
 */
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

/** A word of a call that takes an address: that of a value, plus `byteOffset` bytes. */
export interface CallAddress {
  readonly word: number;
  readonly value: number;
  readonly byteOffset: number;
}

/**
 * Returns the words of a call on a block of rows, and which of the words are addresses. The matrix has `matrixColumns`
 * columns.
 */
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
