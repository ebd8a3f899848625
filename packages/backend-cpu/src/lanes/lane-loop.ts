import type { Code } from '@shardwise/wasm-assembler';
import type { Access, LaneDType } from './loop-spec.ts';
import type { Fold } from './rows.ts';

/** A value in memory that a loop reads or writes. Each element that the loop walks over uses one of its elements. */
export interface LaneOperand {
  readonly dtype: LaneDType;
  readonly access: Access['kind'];
  /** For a scalar, the index of its element in the value. */
  readonly elementOffset: number;
}

/**
 * An input of the code of a loop. Inputs have numbers. Operands come first, and each operand has the same number as an
 * input.
 */
export type LaneInput =
  | { readonly kind: 'operand'; readonly operand: number }
  /** The flat indices of the elements. */
  | { readonly kind: 'index' }
  /** The number of columns of a row, as f32. */
  | { readonly kind: 'columns' }
  /** The result of a fold of an earlier pass over the row. */
  | { readonly kind: 'folded' };

/** One walk over the columns of a row. */
export interface LanePass {
  readonly stores: readonly { readonly operand: number; readonly value: Code<'v128'> }[];
  /** `input` is the number of the input by which later passes read the fold's result. */
  readonly folds: readonly {
    readonly fold: Fold;
    readonly term: Code<'v128'>;
    readonly input: number;
  }[];
}

/** A loop over rows of elements, in terms of lanes. It does not depend on how many lanes a vector has. */
export interface LaneLoop {
  readonly operands: readonly LaneOperand[];
  readonly inputs: readonly LaneInput[];
  /** Passes that run once, before the first row, over columns of operands that all rows share. */
  readonly before: readonly LanePass[];
  /** Passes that run for each row. */
  readonly passes: readonly LanePass[];
  /**
   * Values that are stored once for each row, after its passes. They are the same in all lanes. Their operands have one
   * element for each row.
   */
  readonly ofRow?: LanePass['stores'];
}

/** Makes the code that reads an input of a loop. */
export function laneInput(input: number): Code<'v128'> {
  return {
    kind: 'v128',
    bytes: [],
    operation: { name: 'input', inputs: [], numbers: [input] },
  };
}
