import type { DType, HalfDType, Shape } from './dtype.ts';
import type { Layout } from './layout.ts';
import type { MeshAxis } from './mesh.ts';

/** The description of a parameter of the model in a plan. */
export interface ParameterSpec {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: DType;
  readonly requiresGrad: boolean;
  /** The names under which a model holds the parameter, if there are several. `name` is the first. */
  readonly names?: readonly string[];
}

/** The description of a buffer of the model in a plan. */
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
   * Paths of all modules. The path of the model, '', comes first. Each module comes before the modules inside
   * it, and these before the next module. Default: the modules that hold parameters.
   */
  readonly modules?: readonly string[];
  /** What the model says of its division. Default: nothing. */
  readonly division?: ModelDivision;
}

/**
 * How a model can be divided among ranks: what strategies do if they are not told otherwise. Paths of modules are
 * patterns, in which `*` stands for one name.
 */
export interface ModelDivision {
  /** The styles of tensor parallelism on this number of ranks, by modules, as `tensorParallel` takes them. */
  readonly styles?: (ranks: number) => Readonly<Record<string, object>>;
  /** The modules with which stages of a pipeline may begin. */
  readonly stages?: readonly string[];
  /** The modules whose parameters are gathered together if parameters are divided. */
  readonly units?: readonly string[];
  /**
   * The weight of the loss of a microbatch in that of the batch, if the model returns its loss: a number or a scalar
   * tensor, such as the number of labels. The inputs are those of a pass with the microbatch.
   */
  readonly lossWeight?: (...inputs: readonly unknown[]) => unknown;
  /**
   * Prepares the inputs of a pass whose sequences ranks are about to cut, if the model takes parts of sequences. The result
   * has, as tensors of `length` tokens, whatever a token cannot know from a part: its place, its label, its document. A loss
   * that the model then returns is this part's share of that of the whole sequence.
   */
  readonly sequences?: (inputs: readonly unknown[], length: number) => readonly unknown[];
}

/** What a plan says of one parameter. */
export interface ParameterPlan extends ParameterSpec {
  readonly parameter: Layout;
  readonly gradient: Layout;
  readonly optimizer: Layout;
}

/** One message on one rank, in a step or at the start. */
export interface CollectivePlan {
  readonly operation: string;
  readonly axis: string;
  readonly when: 'start' | 'forward' | 'backward' | 'optimizer';
  /** The message is sent once in so many steps. Default: 1, in each step. */
  readonly everySteps?: number;
  readonly parameters: readonly string[];
  /**
   * The bytes of the input or the output, whichever has more. For an all-gather or a reduce-scatter, these are
   * the bytes of the whole. Gaps that a device leaves between the tensors of a message do not count.
   */
  readonly bytes: number;
  /** The one rank of an axis that takes part, such as the rank of a stage of a pipeline. Default: all ranks. */
  readonly only?: NonNullable<Layout['only']>;
  /** The change of an activation's layout. Absent for messages of parameters. */
  readonly redistribution?: RedistributionSpec;
}

/** The layout of an activation before and after, as text. */
export interface RedistributionSpec {
  /** The module's path. */
  readonly module: string;
  readonly from: string;
  readonly to: string;
  /** If batches pass in microbatches: the number of the microbatch. */
  readonly microbatch?: number;
}

/**
 * A step of a plan: data, and the code of its kind. A kind is one value. You can write your own kind and put steps of
 * it into plans.
 */
export interface PlanStep<Context = unknown> {
  readonly kind: string;
  /** The data of this step. It can be printed as JSON. */
  readonly data: object;
  /** The messages of the step, in a training step and at the start. */
  collectives(plan: Plan<Context>): readonly CollectivePlan[];
  /** Throws if the step cannot be carried out, before anything changes. */
  check(context: Context): void;
  /** Applies the step to this rank's model. It is a collective. */
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
  /** The buffers, which every rank keeps. Absent if the plan was made from parameters alone. */
  readonly buffers?: readonly BufferSpec[];
  /** The steps, in the order in which they are applied. */
  readonly steps: readonly PlanStep<Context>[];
  /**
   * Mixed precision: the dtypes in which parameters and gradients are stored, if an optimizer updates copies of
   * the parameters. The copies have the layouts of the states.
   */
  readonly lowPrecision?: LowPrecision;
  /** Mixed precision of passes: the model's forward pass runs inside autocast. */
  readonly autocast?: PlannedAutocast;
  /**
   * Whether ranks with different parts of the batch draw the same random numbers in forward passes, if they have the same
   * seed. Default: false, so that dropout drops other elements of each part.
   */
  readonly sharesDraws?: boolean;
}

/** The precision in which passes compute. */
export interface PlannedAutocast {
  /** The dtype to which operands of products are rounded. */
  readonly dtype: HalfDType;
  /** The dtype to which floating-point results of the model are converted. */
  readonly outputDtype: DType;
}

/** The precision in which a plan keeps parameters and reduces gradients. */
export interface LowPrecision {
  readonly parameterDtype: DType;
  readonly gradientDtype: DType;
  /** Whether forward passes convert their floating-point inputs to parameterDtype. Default: false. */
  readonly castForwardInputs?: boolean;
  /** The dtype to which floating-point results of the model are converted. Default: they are not converted. */
  readonly outputDtype?: DType;
}

/** An object with a forward pass. */
export interface Model<Inputs extends readonly unknown[], Output> {
  forward(...inputs: Inputs): Output;
}

/** A model that trains on many ranks. `forward` takes this rank's part of the batch. */
export interface ParallelModel<M, Inputs extends readonly unknown[], Output> extends Model<
  Inputs,
  Output
> {
  readonly module: M;
  /**
   * Gradients of backward passes that are built inside `body` stay on this rank and accumulate. The next pass
   * outside of it reduces them all. Throws ConfigError for a body that returns a promise.
   */
  noSync<T>(body: () => T): T;
}

/** A way to train models on many ranks. */
export interface Strategy<Context = unknown> {
  /** The version of this interface that the object implements (docs/decisions/0030-versions-of-interfaces.md). */
  readonly specificationVersion: 1;
  readonly name: string;
  /**
   * Makes the plan without side effects, before any rank starts work. It is the same on every rank. Throws
   * LayoutError if it does not fit.
   */
  plan(model: ModelSpec, axes: readonly MeshAxis[]): Plan<Context>;
}
