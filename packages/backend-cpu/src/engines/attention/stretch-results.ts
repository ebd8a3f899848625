import type { AddressOf } from '../../program/partition.ts';
import type { AttentionForward } from '../../program/work/attention-work.ts';
import { elementsBefore } from './attention-products.ts';
import type { PartSpan } from './part-spans.ts';

/** Memory outside of the arena, and its distance from the arena's start. */
export interface Outside {
  readonly memory: Float32Array;
  readonly address: number;
}

/** The heads that a block of queries is computed for: those of some groups of an item, from a group on. */
interface HeadsOfBlock {
  readonly item: number;
  readonly group: number;
  readonly together: number;
}

/** Numbers in memory, from an element on. */
interface Numbers {
  readonly memory: Float32Array;
  readonly start: number;
}

/** Attention of the queries of one head to some keys. */
interface AttendedRows {
  /** The rows of the results, and the distance between them. Null: only the logarithms are wanted. */
  readonly y: (Numbers & { readonly stride: number }) | null;
  /** The logarithm of each query's sum. Infinite for a query that sees no key. */
  readonly logSums: Numbers;
}

/**
 * The results of a block of queries for a stretch of keys, which are joined to those for the stretches before (Milakov and
 * Gimelshein 2018).
 */
export class StretchResults {
  /** Where a block writes its results, and the logarithms of its sums. */
  readonly y: Outside;
  readonly logSums: Outside;
  readonly #memory: WebAssembly.Memory;
  readonly #work: AttentionForward;
  /** The logarithms of all queries of an item, if they are no result of the attention. */
  readonly #allLogSums: Float32Array;

  /** `rows` is the largest number of queries of a block. `outside` gives memory for so many elements. */
  constructor(
    memory: WebAssembly.Memory,
    work: AttentionForward,
    rows: number,
    outside: (length: number) => Outside,
  ) {
    const { heads, queries, valueWidth, logSumExp } = work;
    this.#memory = memory;
    this.#work = work;
    this.y = outside(heads * rows * valueWidth);
    this.logSums = outside(heads * rows);
    this.#allLogSums = new Float32Array(logSumExp === null ? heads * queries : 0);
  }

  /** Joins what a block has just written. */
  join(
    { block, isFirst }: PartSpan,
    { item, group, together }: HeadsOfBlock,
    addressOf: AddressOf,
  ): void {
    const { heads, groups, queries, valueWidth, values, logSumExp } = this.#work;
    const { start, rows } = block;
    const memory = new Float32Array(this.#memory.buffer);
    const ofGroup = heads / groups;
    const first = group * ofGroup;
    for (let at = 0; at < together * ofGroup; at++) {
      const head = item * heads + first + at;
      const y = values && {
        memory,
        start: addressOf(values.y.value) / 4 + elementsBefore(values.y, head, heads, start),
        stride: values.y.rowStride,
      };
      const logSums =
        logSumExp === null
          ? { memory: this.#allLogSums, start: (first + at) * queries + start }
          : { memory, start: addressOf(logSumExp) / 4 + head * queries + start };
      const own = {
        y: { memory: this.y.memory, start: at * rows * valueWidth, stride: valueWidth },
        logSums: { memory: this.logSums.memory, start: at * rows },
      };
      joinRows({ y, logSums }, own, isFirst, { rows, width: valueWidth });
    }
  }
}

function joinRows(
  all: AttendedRows,
  part: AttendedRows,
  isFirst: boolean,
  { rows, width }: { readonly rows: number; readonly width: number },
): void {
  const { memory, start } = all.logSums;
  for (let row = 0; row < rows; row++) {
    const own = part.logSums.memory[part.logSums.start + row] ?? Infinity;
    const before = isFirst ? Infinity : (memory[start + row] ?? Infinity);
    if (own === Infinity && !isFirst) continue;
    const isAlone = before === Infinity;
    const largest = isAlone ? own : Math.max(before, own);
    const [ofBefore, ofOwn] = isAlone
      ? [0, 1]
      : [Math.exp(before - largest), Math.exp(own - largest)];
    const sum = ofBefore + ofOwn;
    memory[start + row] = isAlone ? own : largest + Math.log(sum);
    if (all.y === null || part.y === null) continue;
    const [target, source] = [all.y, part.y];
    const [to, from] = [target.start + row * target.stride, source.start + row * source.stride];
    const [toBefore, toOwn] = [ofBefore / sum, ofOwn / sum];
    for (let i = 0; i < width; i++) {
      const value = toOwn * (source.memory[from + i] ?? 0);
      // What is in the place of the first results may be anything.
      target.memory[to + i] = isAlone ? value : toBefore * (target.memory[to + i] ?? 0) + value;
    }
  }
}
