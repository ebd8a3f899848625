import type { SizeLimit } from '../../graph/node.ts';
import type { SizeSymbol } from '../../spec/backend.ts';

/** The sizes of one run of a program, in the order of its signature. */
export type Observation = Float64Array;

/** How a size that varies follows from a symbol, or from sizes that come before it among the relations. */
export type Relation =
  | { readonly kind: 'symbol'; readonly symbol: number }
  /** The size is factor * of + addend. */
  | {
      readonly kind: 'linear';
      readonly of: number;
      readonly factor: number;
      readonly addend: number;
    }
  /** The size is factor * one * other. */
  | {
      readonly kind: 'product';
      readonly one: number;
      readonly other: number;
      readonly factor: number;
    }
  /** The size is one + other + addend, or one - other + addend. */
  | {
      readonly kind: 'sum' | 'difference';
      readonly one: number;
      readonly other: number;
      readonly addend: number;
    };

/** The data of the relations between sizes. */
export interface RelatedSizes {
  readonly symbols: readonly SizeSymbol[];
  /** For each symbol, the place of its number among the sizes of a run. */
  readonly places: readonly number[];
  /** The declared limit of each symbol. Null if the symbol was only seen to vary. */
  readonly limits: readonly (SizeLimit | null)[];
  /** One relation for each size that varies. Sizes that are always equal share one. */
  readonly relations: readonly Relation[];
  /** For each size, the index of its relation. -1 if the size never varied. */
  readonly relationOf: Int32Array;
  /** The sizes that never varied. For sizes that vary, the number has no meaning. */
  readonly fixed: Float64Array;
}
