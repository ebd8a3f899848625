import type { SizeLimit } from '../graph/node.ts';
import type { SizeSymbol } from '../spec/sized.ts';

/** The sizes of one run of a program, in the order of its signature. */
export type Observation = Float64Array;

/** What a size that varies is, of others that come before it. */
export type Relation =
  | { readonly kind: 'symbol'; readonly symbol: number }
  /** factor * value + addend. */
  | {
      readonly kind: 'linear';
      readonly of: number;
      readonly factor: number;
      readonly addend: number;
    }
  /** factor * one * other. */
  | {
      readonly kind: 'product';
      readonly one: number;
      readonly other: number;
      readonly factor: number;
    }
  /** one + other + addend. */
  | {
      readonly kind: 'sum';
      readonly one: number;
      readonly other: number;
      readonly addend: number;
    };

/** What relations are made of. */
export interface RelatedSizes {
  readonly symbols: readonly SizeSymbol[];
  /** Where among the sizes of a run each symbol's number stands. */
  readonly places: readonly number[];
  /** What was declared of each symbol; null where it was only seen to vary. */
  readonly limits: readonly (SizeLimit | null)[];
  /** What sizes are that vary, each once. */
  readonly relations: readonly Relation[];
  /** For each size which of `relations` gives it; -1 where it never varied. */
  readonly relationOf: Int32Array;
  /** The sizes that never varied, and for the others some number. */
  readonly fixed: Float64Array;
}
