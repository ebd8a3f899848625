import {
  type CollectivePlan,
  type DimSharding,
  type DType,
  type Module,
  type ParameterSpec,
} from '@shardwise/core/extend';

/** The description of a module in a plan. */
export interface ModuleSpec {
  readonly path: string;
  /** The parameters of the module and of all modules below it, by their names within it. */
  readonly parameters: ReadonlyMap<string, ParameterSpec>;
  /** The dtype of the operands and results of products, if it is not the dtype of the parameters. */
  readonly productDtype?: DType;
  /** For a plan: the parameters of which the ranks of the axis have parts, by their names within the module. */
  readonly cut?: ReadonlySet<string>;
}

/** The place of a rank on the tensor-parallel axis. */
export interface AxisPlace {
  readonly axis: string;
  readonly size: number;
  readonly rank: number;
}

/** A collective that a style adds to its module. */
export type StyleCollective = Omit<CollectivePlan, 'axis' | 'parameters'>;

/** How a kind of module runs on many ranks. */
export interface ParallelStyle {
  readonly name: string;
  /**
   * Returns how parameters are sharded, by their names within the module. It must not have side effects. Throws
   * LayoutError.
   */
  shardings(module: ModuleSpec, size: number): ReadonlyMap<string, DimSharding>;
  /** The messages of one step whose batch has `tokens` tokens on a rank. It must not have side effects. */
  collectives(module: ModuleSpec, tokens: number): readonly StyleCollective[];
  /** Throws LayoutError for a module that the style does not fit, before anything changes. */
  check?(module: Module, path: string): void;
  /** The methods of the module in which sharded parameters stand for this rank's parts. Default: `forward`. */
  readonly methods?: readonly string[];
  /** Changes the inputs and results of the methods. */
  install(module: Module, place: AxisPlace, path: string): void;
}
