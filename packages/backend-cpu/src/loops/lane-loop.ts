import type { Code } from '@shardwise/wasm-assembler';
import type { Access, LaneDType } from '../wasm/loop-spec.ts';
import type { Fold } from '../wasm/rows/rows.ts';

/** Elements of a value in memory, of which a loop reads or writes one for each element that it walks over. */
export interface LaneOperand {
  readonly dtype: LaneDType;
  readonly access: Access['kind'];
  /** Of a scalar: its place. */
  readonly elementOffset: number;
}

/** What the code of a loop reads, by number: operands come first, each under its own. */
export type LaneInput =
  | { readonly kind: 'operand'; readonly operand: number }
  /** Flat indices of the elements. */
  | { readonly kind: 'index' }
  /** How many columns a row has, as f32. */
  | { readonly kind: 'columns' }
  /** What a fold of an earlier pass over the row gave. */
  | { readonly kind: 'folded' };

/** One walk over the columns of a row. */
export interface LanePass {
  readonly stores: readonly { readonly operand: number; readonly value: Code<'v128'> }[];
  /** `input` is the number under which later passes read it. */
  readonly folds: readonly {
    readonly fold: Fold;
    readonly term: Code<'v128'>;
    readonly input: number;
  }[];
}

/** A loop over rows of elements, in terms of lanes, however many of them a vector has. */
export interface LaneLoop {
  readonly operands: readonly LaneOperand[];
  readonly inputs: readonly LaneInput[];
  /** Once, over columns of operands that all rows share. */
  readonly before: readonly LanePass[];
  /** For each row. */
  readonly passes: readonly LanePass[];
  /** What is stored of each row, behind its passes: values that are the same in all lanes, to operands of rows. */
  readonly ofRow?: LanePass['stores'];
}

/** An input in the code of a loop. */
export function laneInput(input: number): Code<'v128'> {
  return {
    kind: 'v128',
    bytes: [],
    operation: { name: 'input', inputs: [], numbers: [input] },
  };
}
