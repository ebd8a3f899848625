import type {
  ActivationLayout,
  CollectivePlan,
  DType,
  Module,
  ParameterSpec,
  Tensor,
} from '@shardwise/core/extend';
import type { Method } from '../modules/module-method.ts';

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

/** The elements that activations of a module have for each token, and their dtype. */
export interface ActivationSizes {
  readonly input: number;
  readonly output: number;
  readonly dtype: DType;
}

/** The modules that a style is for. */
export interface ModuleKind {
  /** Throws LayoutError for a module that is of another kind, before anything changes. Default: all modules fit. */
  check?(module: Module, path: string): void;
  /**
   * Returns the sizes of activations, for the bytes in a plan, or null if the parameters do not say them. Throws
   * LayoutError if a parameter that the kind has is missing. Default: they are not known.
   */
  sizes?(module: ModuleSpec): ActivationSizes | null;
  /**
   * Whether inputs are operands of products. They are then sent in the dtype of products (autocast). Default: false.
   */
  readonly multiplies?: boolean;
  /** The names of parameters without which a module is of this kind, too, such as a bias. Default: none. */
  readonly optional?: readonly string[];
}

/** Each rank has an equal part of a parameter along a dim. */
export interface ParameterSharding {
  /** The dim. Of a linear layer's weight, it is the dim of [out, in]. */
  readonly shard: number;
  /** The heads of each section of the dim, none of which is cut. Default: the dim can be cut anywhere. */
  readonly heads?: readonly number[] | undefined;
  /** Whether the parameter has its two dims in the other order, unless it is in blocks of few bits. Default: false. */
  readonly transposed?: boolean;
}

/**
 * The layout of a parameter while its module runs. replicate: all ranks have it, and each uses it for its part of the
 * activations, so its gradient is summed. invariant: all ranks use it alike.
 */
export type ParameterLayout = ParameterSharding | 'replicate' | 'invariant';

/** A change of layout at the input or output of a module. */
export interface ActivationChange {
  /** The layout of the activation before the change. */
  readonly from: ActivationLayout;
  /** The layout of the activation after the change. */
  readonly to: ActivationLayout;
  /**
   * The number of elements of the whole activation for each token, for the bytes in the plan. Default: that of the kind of
   * module. If it is not known, the plan does not list the message.
   */
  readonly features?: number;
}

/** What a style computes that layouts do not say. */
export interface StyledComputation {
  /**
   * Runs in place of a method of the module, between the changes of its inputs and its output. `run` is the method of
   * the module.
   */
  run?(inputs: readonly unknown[], run: Method): unknown;
  /** Returns what is added to the output after its change. A partial sum would get it once from each rank. */
  added?(): Tensor | null;
}

/**
 * How a kind of module runs on the ranks of an axis: the layouts of its parameters and activations, as a value. One
 * mechanism reads it for plans and for passes.
 *
 *     const colwise: ParallelStyle = {
 *       name: 'colwise',
 *       kind: {},
 *       parameters: { weight: { shard: 0 }, bias: { shard: 0 } },
 *       inputs: { forward: [{ from: 'invariant', to: 'replicate' }] },
 *       output: { from: shard(-1), to: 'invariant' },
 *     };
 */
export interface ParallelStyle {
  readonly name: string;
  readonly kind: ModuleKind;
  /**
   * The layouts of parameters, by their names within the module. Planning throws LayoutError for a name that the module has
   * not, except for those that its kind calls optional.
   */
  readonly parameters: Readonly<Record<string, ParameterLayout>>;
  /**
   * The layout of all other parameters of the module. uncut: replicate, except for those that another style over the axis
   * shards. Default: invariant.
   */
  readonly others?: 'invariant' | 'replicate' | 'uncut';
  /**
   * The changes of the inputs of each method in which sharded parameters stand for this rank's parts. An input without a
   * change stays as it is. The plan lists the messages of `forward`.
   */
  readonly inputs: Readonly<Record<string, readonly (ActivationChange | undefined)[]>>;
  /** The change of the output of each method, or null if it stays as it is. */
  readonly output: ActivationChange | null;
  /** Whether each rank draws random numbers of its own, because it has other elements. Default: false. */
  readonly drawsOwn?: boolean;
  /** As GatherAgainOptions.gatherAgain. Default: false. */
  readonly gatherAgain?: boolean;
  /** The styles of modules of this module, by their names in it. */
  readonly modules?: Readonly<Record<string, ParallelStyle>>;
  /** Collectives of one step besides those of layouts. `tokens`: the number of tokens of a rank's batch. */
  collectives?(module: ModuleSpec, tokens: number): readonly StyleCollective[];
  /** Prepares the module. It is called once, when the plan is applied. Returns what layouts do not say. */
  install?(module: Module, place: AxisPlace, path: string): StyledComputation | undefined;
}
