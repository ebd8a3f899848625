/** A module and all below it. */
export interface ModuleSummary {
  /** The module's path in the model, as in the names of parameters; '' for the model. */
  readonly path: string;
  /** The name of its class. */
  readonly type: string;
  /** The shapes that its first forward pass returns; '' where `forward` is not called. */
  readonly output: string;
  /** Forward passes of it in one of the model. */
  readonly calls: number;
  /** Elements. What modules share counts in each of them, and once in the model. */
  readonly parameters: number;
  /** Floating-point operations of all its forward passes. */
  readonly flops: number;
}

/** Prints as a table. */
export interface ModelSummary {
  readonly modules: readonly ModuleSummary[];
  /** Elements, what modules share once. */
  readonly parameters: number;
  readonly trainedParameters: number;
  readonly parameterBytes: number;
  /** Floating-point operations of one forward pass. */
  readonly flops: number;
  /** The table. */
  toString(): string;
}
