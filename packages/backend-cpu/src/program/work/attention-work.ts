import type { AttentionDims } from '@shardwise/core/base';
import type { AttentionParams } from '@shardwise/core/spec';
import type { Packing } from './product-kinds.ts';

/** Where the rows of heads lie in a value. All numbers are elements. The elements of a row lie together. */
export interface HeadPlaces {
  /** Where the first row begins. */
  readonly elementOffset: number;
  readonly itemStride: number;
  readonly headStride: number;
  readonly rowStride: number;
}

/** The place of a gradient of attention in a value that contains all of them. */
export interface GatheredGradient extends HeadPlaces {
  readonly op: 'attentionQueryGrad' | 'attentionKeyGrad' | 'attentionValueGrad';
}

/** Heads of a value in memory, or of a part of such a value. */
export interface HeadsInMemory extends HeadPlaces {
  readonly value: number;
  readonly packing: Packing;
}

/** The mask that is added to the scores. Strides are in elements, and 0 in dims where the mask is the same for all. */
export interface MaskInMemory {
  readonly value: number;
  readonly itemStride: number;
  readonly headStride: number;
  readonly queryStride: number;
}

/** The first key that each query sees, and one more than the last. */
export interface KeyRangesInMemory {
  readonly value: number;
  /** The numbers of elements from item to item. It is 0 if all items have the same ranges. */
  readonly itemStride: number;
}

/** What attention reads in addition, if it is a block of queries and keys of a larger attention. */
interface BlockOfAttention {
  /** The number of queries of each head of the larger attention, in values that have a number for each query. */
  readonly rowsOfHead: number;
  /**
   * Whether the gradients of the queries go on from what is in their places, and whether these are complete with the keys of
   * this block. Complete sums are scaled.
   */
  readonly continues: boolean;
  readonly isComplete: boolean;
  /** Whether queries see other keys of the block than others. If not, nothing below is read. */
  readonly hasBounds: boolean;
  /** Values in f32, with the first key of the block that each query sees, and one more than the last. */
  readonly firstKeys: number;
  readonly endKeys: number;
  /** The numbers of the keys, in f32. */
  readonly keyNumbers: number;
}

/** A result of attention, which may be only a part of a value. `isNarrow` says that it is stored as bf16, not f32. */
export interface AttentionResult extends HeadPlaces {
  readonly value: number;
  readonly isNarrow: boolean;
  /** The byte length of the whole value. */
  readonly byteLength: number;
}

/** The places of heads of `rows` rows that lie behind each other without gaps. */
export function wholeHeads(heads: number, rows: number, width: number): HeadPlaces {
  return {
    elementOffset: 0,
    itemStride: heads * rows * width,
    headStride: rows * width,
    rowStride: width,
  };
}

interface Common extends AttentionDims {
  readonly params: AttentionParams;
  /** Whether the operands of products are bf16. */
  readonly isNarrow: boolean;
  readonly q: HeadsInMemory;
  readonly k: HeadsInMemory;
  readonly mask: MaskInMemory | null;
  readonly keyRanges: KeyRangesInMemory | null;
  /** Null for a whole attention. The gradients of keys and values of a block are added to what is in their places. */
  readonly block: BlockOfAttention | null;
}

/** Attention, the logarithms of its rows' sums (which gradients need), or both. */
export interface AttentionForward extends Common {
  readonly kind: 'forward';
  /** Null if only the logarithms are wanted. */
  readonly values: { readonly v: HeadsInMemory; readonly y: AttentionResult } | null;
  readonly logSumExp: number | null;
}

/** The gradients of one attention. Those that are not wanted are null. */
export interface AttentionBackward extends Common {
  readonly kind: 'backward';
  readonly v: HeadsInMemory;
  readonly dy: HeadsInMemory;
  readonly logSumExp: number;
  readonly delta: number;
  readonly dq: AttentionResult | null;
  readonly dk: AttentionResult | null;
  readonly dv: AttentionResult | null;
}

/** A partition's attention or gradients of attention as plain data. */
export type AttentionWork = AttentionForward | AttentionBackward;

/** Keys or values in blocks, which lie together, as they are stored. Others than f32 are converted as blocks are read. */
export type StoredBlocks =
  | { readonly dtype: 'f32'; readonly value: number }
  | { readonly dtype: 'bf16' | 'f16'; readonly value: number }
  /** Bytes, from which 128 is subtracted. What is left is multiplied by the scale of the row, which is f32. */
  | { readonly dtype: 'u8'; readonly value: number; readonly scales: number };

/** Attention whose keys and values lie in blocks, as plain data. The numbers of the blocks are found anew in each run. */
export interface PagedAttentionWork {
  readonly kind: 'paged';
  readonly batch: number;
  readonly heads: number;
  readonly groups: number;
  readonly queries: number;
  readonly width: number;
  readonly valueWidth: number;
  /** How many blocks there are, how many of them an item has, and the number of keys of a block. */
  readonly blockCount: number;
  readonly blocksOfItem: number;
  readonly blockSize: number;
  readonly params: Pick<AttentionParams, 'scale' | 'rounding'>;
  readonly q: HeadsInMemory;
  readonly y: AttentionResult;
  readonly keys: StoredBlocks;
  readonly values: StoredBlocks;
  readonly table: number;
  readonly ranges: number;
  /** The number of the instruction, for errors. */
  readonly instruction: number;
}

/** The ids of the values that the work computes. */
export function resultsOf(work: AttentionWork | PagedAttentionWork): readonly number[] {
  if (work.kind === 'paged') return [work.y.value];
  const made =
    work.kind === 'forward'
      ? [work.values?.y.value, work.logSumExp]
      : [work.dq?.value, work.dk?.value, work.dv?.value];
  return [...new Set(made.filter((value) => value !== undefined && value !== null))];
}
