import {
  isHeldAt,
  LayoutError,
  ownPlace,
  type Module,
  type Parameter,
  type ParameterPlan,
  type Plan,
} from '@shardwise/core/extend';
import type { BufferSharing } from '../buffer-sharing.ts';
import type { Reducer } from '../distributed-data-parallel/reducer.ts';
import type { GradientReducer } from '../sharding/gradient-reducer.ts';
import type { ShardedParameter } from '../sharding/sharded-parameter.ts';
import type { ShardedPart } from '../sharding/sharded-part.ts';
import { ModelNumbers } from './model-numbers.ts';

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

/** A plan while it is applied to this rank's model. */
export class PlanContext {
  readonly plan: Plan<PlanContext>;
  readonly model: Module;
  /** The parameters of which this rank updates a part, by name. */
  readonly sharded: Map<string, ShardedParameter> = new Map();
  /** The objects that average gradients of whole parameters, by mesh axis. */
  readonly reducers: Map<string, Reducer> = new Map();
  /** The objects that average gradients of parts, by mesh axis. */
  readonly gradientReducers: Map<string, GradientReducer> = new Map();
  readonly hooks: PassHooks[] = [];
  readonly numbers: ModelNumbers;
  /** The sharing of buffers. Null if each rank keeps its own buffers. */
  buffers: { readonly axes: readonly string[]; readonly sharing: BufferSharing } | null = null;
  readonly #planned: ReadonlyMap<string, ParameterPlan>;
  readonly #whenSharded: ((name: string, part: ShardedPart) => Promise<void>)[] = [];

  constructor(plan: Plan<PlanContext>, model: Module) {
    this.plan = plan;
    this.model = model;
    this.numbers = new ModelNumbers(plan.axes);
    this.#planned = new Map(plan.parameters.map((parameter) => [parameter.name, parameter]));
  }

  /** The model's parameters with their names, after the steps so far. */
  get parameters(): readonly (readonly [name: string, parameter: Parameter])[] {
    return this.model.namedParameters();
  }

  /**
   * The parameters of which this rank has something. Parameters that only another rank of an axis has are left
   * out.
   */
  get heldParameters(): readonly (readonly [name: string, parameter: Parameter])[] {
    return this.parameters.filter(([, { part }]) => isHeldAt(part.layout, ownPlace));
  }

  /** The plan's entry for a parameter. Throws LayoutError for a parameter that it does not have. */
  plannedOf(name: string): ParameterPlan {
    const planned = this.#planned.get(name);
    if (planned !== undefined) return planned;
    throw new LayoutError(
      {
        asked: `to carry out a plan of '${this.plan.strategy}'`,
        found: `the model has a parameter '${name}' that is not in the plan`,
        todo: 'Make the plan of this model: planFor(model, strategy)',
      },
      { parameter: name },
    );
  }

  /** Runs `body` for each parameter of which this rank keeps only a part, now or as soon as it does. */
  async whenSharded(body: (name: string, part: ShardedPart) => Promise<void>): Promise<void> {
    this.#whenSharded.push(body);
    for (const [name, { part }] of this.sharded) await body(name, part);
  }

  /** A step calls this when it has replaced a parameter by a part. */
  async noteSharded(name: string, parameter: ShardedParameter): Promise<void> {
    this.sharded.set(name, parameter);
    for (const body of this.#whenSharded) await body(name, parameter.part);
  }
}
