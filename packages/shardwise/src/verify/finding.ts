/** What differs between the run on many ranks and the one on one rank. */
export interface Finding {
  /**
   * `initial`: a parameter or buffer before the first step. `batch`: ranks read the same rows. `output`: what a module
   * returned. `gradient`: after the reduction, as the optimizer reads it. `parameter` and `buffer`: after the update.
   * `kept gradient`: the gradient of an earlier step was added. `updates`: a rank made fewer or more updates.
   */
  readonly kind:
    | 'initial'
    | 'batch'
    | 'output'
    | 'loss'
    | 'gradient'
    | 'parameter'
    | 'buffer'
    | 'kept gradient'
    | 'updates';
  /** The number of the optimizer update, from 1 on. 0: before the first. */
  readonly step: number;
  /** The path of the module; '' for the model. */
  readonly module: string;
  /** The class of the module. */
  readonly moduleClass: string;
  /** The name of the parameter or buffer. Else what the value is: `output`, `loss`, `inputs`. */
  readonly tensor: string;
  /** The first rank that differs, and all that do. */
  readonly rank: number;
  readonly ranks: readonly number[];
  /** The place of the greatest difference, in the whole tensor. */
  readonly index: readonly number[];
  /** The value on the rank, that of one rank, and the greatest difference that rounding explains. */
  readonly found: number;
  readonly expected: number;
  readonly tolerance: number;
  /** How the tensor lies on the ranks, and what the plan does to it. */
  readonly layout: string;
  readonly actions: readonly string[];
  /** What the difference looks like. Empty if it looks like nothing known. */
  readonly hint: string;
}

/** The result of `verify`. */
export interface Verification {
  /** The first difference. Null if there is none. */
  readonly finding: Finding | null;
  /** The strategy, and the numbers of ranks and of steps that were compared. */
  readonly strategy: string;
  readonly ranks: number;
  readonly steps: number;
  /** The number of tensors that were compared, and the names of values that could not be. */
  readonly compared: number;
  readonly notCompared: readonly string[];
}
