import type { DType, Shape } from './dtype.ts';
import type { MeshAxis } from './mesh.ts';

/** Per tensor dim, the mesh axes that shard it, outermost first; plus the axes over which it is a partial sum. */
export interface Layout {
  readonly dims: readonly (readonly string[])[];
  readonly partial: readonly string[];
  /** Axes that share out the elements in a row, whatever the dims. */
  readonly flat?: readonly string[];
  /** Axes whose ranks each have a value of their own, as where they train without communication. */
  readonly varying?: readonly string[];
  /** The one rank of an axis that has it; the others have nothing between two steps. */
  readonly only?: { readonly axis: string; readonly rank: number };
}

/** What a plan needs to know of a parameter. */
export interface ParameterSpec {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: DType;
  readonly requiresGrad: boolean;
  /** Under which a model holds it, where they are several; `name` is the first. */
  readonly names?: readonly string[];
}

export interface ParameterPlan extends ParameterSpec {
  readonly parameter: Layout;
  readonly gradient: Layout;
  readonly optimizer: Layout;
}

/** Communication of one step on one rank. */
export interface CollectivePlan {
  readonly operation: string;
  readonly axis: string;
  readonly when: 'start' | 'forward' | 'backward' | 'optimizer';
  readonly parameters: readonly string[];
  readonly bytes: number;
  /** For an activation that lies otherwise after it; absent for what concerns parameters. */
  readonly redistribution?: RedistributionSpec;
}

/** How an activation of a layer lies before and after, as text. */
export interface RedistributionSpec {
  /** The module's path. */
  readonly module: string;
  readonly from: string;
  readonly to: string;
}

/** How a model's states lie on the ranks, and what is communicated; data that prints as a table. */
export interface Plan {
  readonly strategy: string;
  readonly axes: readonly MeshAxis[];
  readonly batch: Layout;
  readonly parameters: readonly ParameterPlan[];
  readonly collectives: readonly CollectivePlan[];
  /** Of the model's buffers, which every rank keeps; absent where the plan was made from parameters alone. */
  readonly bufferBytes?: number;
  /**
   * Mixed precision: in what parameters and gradients are stored, where an optimizer updates copies
   * of the parameters that lie as its states.
   */
  readonly lowPrecision?: { readonly parameterDtype: DType; readonly gradientDtype: DType };
}

/** Something with a forward pass. */
export interface Model<Inputs extends readonly unknown[], Output> {
  forward(...inputs: Inputs): Output;
}

/** A model that trains on many ranks; `forward` takes this rank's part of the batch. */
export interface ParallelModel<M, Inputs extends readonly unknown[], Output> extends Model<
  Inputs,
  Output
> {
  readonly module: M;
  /**
   * Gradients of backward passes built inside `body` stay on this rank and accumulate, until a pass outside
   * of it reduces them all. Throws ConfigError for a body that returns a promise, as `synchronously` does.
   */
  noSync<T>(body: () => T): T;
}

/** A way to train models of a kind on many ranks. */
export interface Strategy<Base> {
  readonly name: string;
  /** Pure: the same on every rank, before any rank starts work. Throws LayoutError where it does not fit. */
  plan(parameters: readonly ParameterSpec[], axes: readonly MeshAxis[]): Plan;
  /** Carries the plan out on this rank's model. A collective. */
  apply<M extends Base, Inputs extends readonly unknown[], Output>(
    plan: Plan,
    model: M & Model<Inputs, Output>,
  ): Promise<ParallelModel<M, Inputs, Output>>;
}
