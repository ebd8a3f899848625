import type { DType, HalfDType, Shape } from './dtype.ts';
import type { Layout } from './layout.ts';
import type { MeshAxis } from './mesh.ts';

/** What a plan needs to know of a parameter. */
export interface ParameterSpec {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: DType;
  readonly requiresGrad: boolean;
  /** Under which a model holds it, where they are several; `name` is the first. */
  readonly names?: readonly string[];
}

/** What a plan knows of a buffer of the model. */
export interface BufferSpec {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: DType;
}

/** What a strategy needs to know of a model to make a plan. */
export interface ModelSpec {
  readonly parameters: readonly ParameterSpec[];
  /** Default: none. */
  readonly buffers?: readonly BufferSpec[];
  /**
   * Paths of all modules: the model's own path '' first, each before those inside of it, and these before the next one.
   * Default: those that hold parameters.
   */
  readonly modules?: readonly string[];
}

/** What a plan says of one parameter. */
export interface ParameterPlan extends ParameterSpec {
  readonly parameter: Layout;
  readonly gradient: Layout;
  readonly optimizer: Layout;
}

/** One message of a step on one rank, or of the start. */
export interface CollectivePlan {
  readonly operation: string;
  readonly axis: string;
  readonly when: 'start' | 'forward' | 'backward' | 'optimizer';
  readonly parameters: readonly string[];
  /**
   * Of what it takes or gives, whichever is larger: the whole, for gathers and reductions to parts. Without what a
   * device leaves free between the tensors of one message.
   */
  readonly bytes: number;
  /** The one rank of an axis that has a part in it, as a stage of a pipeline has. Default: all have. */
  readonly only?: NonNullable<Layout['only']>;
  /** For an activation that lies otherwise after it; absent for what concerns parameters. */
  readonly redistribution?: RedistributionSpec;
}

/** How an activation of a layer lies before and after, as text. */
export interface RedistributionSpec {
  /** The module's path. */
  readonly module: string;
  readonly from: string;
  readonly to: string;
  /** Where batches pass through in parts: of which part. */
  readonly microbatch?: number;
}

/**
 * A step of a plan: data, and the code of its kind. A kind is one value. You can write your own kind and put steps of
 * it into plans.
 */
export interface PlanStep<Context = unknown> {
  readonly kind: string;
  /** What is particular to this step; prints as JSON. */
  readonly data: object;
  /** What it communicates in a training step, and at the start. */
  collectives(plan: Plan<Context>): readonly CollectivePlan[];
  /** Throws where it can't be carried out, before anything has changed. */
  check(context: Context): void;
  /** Carries it out on this rank's model. A collective. */
  apply(context: Context): void | Promise<void>;
}

/**
 * Says how the states of a model are placed on the ranks, and what is done to the model. A plan can be printed as
 * tables and edited, and it is exactly what runs.
 */
export interface Plan<Context = unknown> {
  readonly strategy: string;
  readonly axes: readonly MeshAxis[];
  readonly batch: Layout;
  readonly parameters: readonly ParameterPlan[];
  /** Which every rank keeps. Absent where the plan was made from parameters alone. */
  readonly buffers?: readonly BufferSpec[];
  /** In the order in which they are carried out. */
  readonly steps: readonly PlanStep<Context>[];
  /**
   * Mixed precision: in what parameters and gradients are stored, where an optimizer updates copies
   * of the parameters that lie as its states.
   */
  readonly lowPrecision?: LowPrecision;
  /** Mixed precision of passes: the model's forward runs inside autocast. */
  readonly autocast?: PlannedAutocast;
}

/** The precision with which passes compute. */
export interface PlannedAutocast {
  /** To what operands of products are rounded. */
  readonly dtype: HalfDType;
  /** To what the model's floating-point results are converted. */
  readonly outputDtype: DType;
}

/** The precision in which a plan keeps parameters and reduces gradients. */
export interface LowPrecision {
  readonly parameterDtype: DType;
  readonly gradientDtype: DType;
  /** Whether forward passes convert their floating-point inputs to parameterDtype. Default: false. */
  readonly castForwardInputs?: boolean;
  /** To what the model's floating-point results are converted. Default: as they were computed. */
  readonly outputDtype?: DType;
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

/** A way to train models on many ranks. */
export interface Strategy<Context = unknown> {
  readonly name: string;
  /** Pure: the same on every rank, before any rank starts work. Throws LayoutError where it does not fit. */
  plan(model: ModelSpec, axes: readonly MeshAxis[]): Plan<Context>;
}
