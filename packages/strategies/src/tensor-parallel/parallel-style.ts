import type { CollectivePlan, DType, Module, ParameterSpec } from '@shardwise/core/extend';
import type { DimSharding } from '../layout/axis-layout.ts';

/** A module as a plan sees it. */
export interface ModuleSpec {
  readonly path: string;
  /** The parameters of the module and of all below it, by their names within it. */
  readonly parameters: ReadonlyMap<string, ParameterSpec>;
  /** In what products take and give activations, where it is not the dtype of the parameters. */
  readonly productDtype?: DType;
  /** Of a plan: those that ranks of the axis have parts of, by their names within the module. */
  readonly cut?: ReadonlySet<string>;
}

/** Where a rank stands on the tensor-parallel axis. */
export interface AxisPlace {
  readonly axis: string;
  readonly size: number;
  readonly rank: number;
}

/** A collective that a style adds to its module. */
export type StyleCollective = Omit<CollectivePlan, 'axis' | 'parameters'>;

/** How a module of some kind runs on many ranks. */
export interface ParallelStyle {
  readonly name: string;
  /** Which of the parameters are sharded, by their names within the module. Pure. Throws LayoutError. */
  shardings(module: ModuleSpec, size: number): ReadonlyMap<string, DimSharding>;
  /** Communication of one step whose batch has `tokens` tokens on a rank. Pure. */
  collectives(module: ModuleSpec, tokens: number): readonly StyleCollective[];
  /** Throws LayoutError for a module that the style is not for, while nothing has changed yet. */
  check?(module: Module, path: string): void;
  /** The module's methods in which parameters that are cut stand for this rank's parts. Default: `forward`. */
  readonly methods?: readonly string[];
  /** Changes what the methods are given and give. */
  install(module: Module, place: AxisPlace, path: string): void;
}
