import type { AttentionDims, AttentionParams } from '@shardwise/core/spec';
import type { Packing } from '../products/product-types.ts';

/** Where the rows of heads lie in a value, in elements. Those of a row lie together. */
export interface HeadPlaces {
  /** Where the first row begins. */
  readonly elementOffset: number;
  readonly itemStride: number;
  readonly headStride: number;
  readonly rowStride: number;
}

/** A gradient of attention as a part of a value that has all of them. */
export interface GatheredGradient extends HeadPlaces {
  readonly op: 'attentionQueryGrad' | 'attentionKeyGrad' | 'attentionValueGrad';
}

/** Heads of a value in memory, or of a part of one. */
export interface HeadsInMemory extends HeadPlaces {
  readonly value: number;
  readonly packing: Packing;
}

/** What is added to the scores, and in which dims it has a size of its own. */
export interface MaskInMemory {
  readonly value: number;
  readonly hasItems: boolean;
  readonly hasHeads: boolean;
  readonly hasQueries: boolean;
}

/** A result, perhaps a part of a value, and whether it is stored in bf16 instead of f32. */
export interface AttentionResult extends HeadPlaces {
  readonly value: number;
  readonly isNarrow: boolean;
  /** Of all of the value. */
  readonly byteLength: number;
}

/** Heads that follow each other, of so many rows. */
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
  /** Whether products are those of bf16. */
  readonly isNarrow: boolean;
  readonly q: HeadsInMemory;
  readonly k: HeadsInMemory;
  readonly mask: MaskInMemory | null;
}

/** Attention and, where gradients are to come, the logarithms of its sums; one of them may not be wanted. */
export interface AttentionForward extends Common {
  readonly kind: 'forward';
  /** Null where the logarithms alone are wanted. */
  readonly values: { readonly v: HeadsInMemory; readonly y: AttentionResult } | null;
  readonly logSumExp: number | null;
}

/** Those gradients of one attention that are wanted. */
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

/** Attention as plain data. */
export type AttentionWork = AttentionForward | AttentionBackward;

/** The values that it makes. */
export function resultsOf(work: AttentionWork): readonly number[] {
  const made =
    work.kind === 'forward'
      ? [work.values?.y.value, work.logSumExp]
      : [work.dq?.value, work.dk?.value, work.dv?.value];
  return [...new Set(made.filter((value) => value !== undefined && value !== null))];
}
