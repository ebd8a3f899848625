import type { Module, Parameter, ParameterPlan, Plan, Tensor } from '@shardwise/core/extend';
import type { BatchAxes } from './axes.ts';

/** What a step of a plan adds to the passes of a model. */
export interface PassHooks {
  /** Called before each forward pass. `inputs` are the inputs that the user of the model passes. */
  beforeForward?(inputs: readonly unknown[]): void;
  /** Called when a forward pass has ended, even if it failed. */
  afterForward?(): void;
  /**
   * Replaces the forward pass. `run` is the forward pass of the model, with what the later steps of the plan
   * have added to it.
   */
  forward?<Inputs extends readonly unknown[], Output>(
    run: (...inputs: Inputs) => Output,
    inputs: Inputs,
  ): Output;
  /** Returns the plan as it runs now, if passes can change it. */
  planned?(plan: Plan<PlanContext>): Plan<PlanContext>;
  /** Gives the updated values to ranks that do not update them themselves. */
  replicate?(): void;
  /** Undoes what the step has done to the model, so that it is an ordinary model again. */
  detach?(): void;
}

/** Averages the gradients of whole parameters over a mesh axis. */
export interface WholeReducer {
  /** Set to false to let gradients accumulate on this rank (noSync). */
  enabled: boolean;
  /** The factor of averages when not all ranks have a batch. Shape: []. */
  scale: Tensor | null;
  /** Announces a pass inside `join`. `sends`: whether its backward pass will send gradients. */
  announce(sends: boolean): void;
  /** Passes need not be announced any more, because all ranks have sent and computed the same ones. */
  endAnnouncements(): void;
  /** Takes part in a pass of the other ranks with gradients of zeros. */
  shadow(): void;
}

/** Averages the gradients of parameters of which each rank of a mesh axis updates a part. */
export interface PartReducer {
  /** Set to false to let gradients wait on this rank (noSync). */
  enabled: boolean;
  /** The names of the parameters whose gradients the latest pass has reduced. Null before the first pass. */
  readonly latest: ReadonlySet<string> | null;
}

/** Decides when ranks get rank 0's buffers, and sends them. */
export interface BroadcastsBuffers {
  /** Returns whether the forward pass that begins must send buffers. The result is the same on all ranks. */
  begin(pass: { readonly synchronizes: boolean }): boolean;
  /** Call this when all ranks have got the same buffers. */
  settle(): void;
  /** Replaces all buffers. `broadcast` returns rank 0's value. Shape: N -> N. */
  send(broadcast: (message: Tensor) => Tensor): void;
}

/** How parameters are sharded. */
export interface ShardingRequest {
  /** The axis over which parameters are sharded, and the axis of replicas. */
  readonly over: BatchAxes;
  /** The names of the parameters whose gradients are reduced together, for each group. */
  readonly groups: readonly (readonly string[])[];
  /** Whether gradients of all trained parameters are reduced in each pass, as zeros where it reaches none. */
  readonly findUnusedParameters: boolean;
}

/** Parameters with their names. */
export type NamedParameters = readonly (readonly [name: string, parameter: Parameter])[];

/** A plan while it is applied to this rank's model. */
export interface PlanContext {
  readonly plan: Plan<PlanContext>;
  readonly model: Module;
  /** What the passes of the model call, in the order of the steps. */
  readonly hooks: PassHooks[];
  /** What the names of collectives over an axis end with, by which they differ from those of other models. */
  readonly numbers: { suffix(axis: string): string };
  /** The parameters of which this rank updates a part, by name. */
  readonly sharded: ReadonlyMap<string, Parameter>;
  /** The objects that average gradients of whole parameters, by mesh axis. */
  readonly reducers: Map<string, WholeReducer>;
  /** The objects that average gradients of parts, by mesh axis. */
  readonly partReducers: Map<string, PartReducer>;
  /** How ranks get rank 0's buffers. Null if each rank keeps its own buffers. */
  buffers: { readonly axes: readonly string[]; readonly broadcasts: BroadcastsBuffers } | null;
  /** The model's parameters with their names, after the steps so far. */
  readonly parameters: NamedParameters;
  /**
   * The parameters of which this rank has something. Parameters that only another rank of an axis has are left
   * out.
   */
  readonly heldParameters: NamedParameters;
  /** Returns the plan's entry for a parameter. Throws LayoutError for a parameter that it does not have. */
  plannedOf(name: string): ParameterPlan;
  /**
   * Replaces parameters by those of which this rank updates a part, by the layouts of the plan. Returns what averages
   * their gradients. It is a collective.
   */
  shardParameters(named: NamedParameters, request: ShardingRequest): Promise<PartReducer>;
  /** Has forward passes read the parameters with these names in fewer bits, if the plan says so. */
  lowerPrecision(names: ReadonlySet<string>): Promise<void>;
  /** Runs `body` for each parameter of which this rank keeps only a part, now or as soon as it does. */
  whenSharded(body: (name: string, part: Tensor) => Promise<void>): Promise<void>;
}
