/** A row of a summary: a module together with all modules below it. */
export interface ModuleSummary {
  /** The path of the module in the model, as in the names of parameters. It is '' for the model itself. */
  readonly path: string;
  /** The name of the module's class. */
  readonly type: string;
  /** The shapes that the module's first forward pass returns. It is '' if `forward` is not called. */
  readonly output: string;
  /** The number of the module's forward passes in one forward pass of the model. */
  readonly calls: number;
  /**
   * The number of elements of parameters. Shared parameters count in each module that has them, and once in the model.
   */
  readonly parameters: number;
  /** The floating-point operations of all forward passes of the module. */
  readonly flops: number;
}

/** The summary of a model. It prints as a table. */
export interface ModelSummary {
  readonly modules: readonly ModuleSummary[];
  /** The number of elements of parameters. Shared parameters count once. */
  readonly parameters: number;
  readonly trainedParameters: number;
  readonly parameterBytes: number;
  /** The floating-point operations of one forward pass. */
  readonly flops: number;
  /** The table. */
  toString(): string;
}
