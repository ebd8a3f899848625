/** A module with all modules below it. */
export interface ModuleSummary {
  /** The path of the module in the model, as in the names of parameters; '' for the model. */
  readonly path: string;
  /** The name of its class. */
  readonly type: string;
  /** The shapes that its first forward pass returns; '' if `forward` is not called. */
  readonly output: string;
  /** The number of its forward passes in one forward pass of the model. */
  readonly calls: number;
  /** The number of elements. Shared parameters count in each module that has them, and once in the model. */
  readonly parameters: number;
  /** The floating-point operations of all its forward passes. */
  readonly flops: number;
}

/** The summary of a model. It prints as a table. */
export interface ModelSummary {
  readonly modules: readonly ModuleSummary[];
  /** The number of elements. Shared parameters count once. */
  readonly parameters: number;
  readonly trainedParameters: number;
  readonly parameterBytes: number;
  /** Floating-point operations of one forward pass. */
  readonly flops: number;
  /** The table. */
  toString(): string;
}
