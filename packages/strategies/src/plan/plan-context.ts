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

/** What a step of a plan adds to the passes of a model. */
export interface PassHooks {
  /** Is called before each forward pass. `inputs` are what the model's user passes. */
  beforeForward?(inputs: readonly unknown[]): void;
  /** Is called when a forward pass is over, also one that failed. */
  afterForward?(): void;
  /**
   * In the place of the forward pass, which `run` is: the model's, with what the later steps of the plan have put
   * around it.
   */
  forward?<Inputs extends readonly unknown[], Output>(
    run: (...inputs: Inputs) => Output,
    inputs: Inputs,
  ): Output;
  /** The plan as it is carried out now, where that depends on what passes have done. */
  planned?(plan: Plan<PlanContext>): Plan<PlanContext>;
  /** Gives ranks that do not update anything themselves what others have updated. */
  replicate?(): void;
  /** Takes back what the step has done to the model, so that it is an ordinary one again. */
  detach?(): void;
}

/** A plan while it is carried out on this rank's model. */
export class PlanContext {
  readonly plan: Plan<PlanContext>;
  readonly model: Module;
  /** The parameters of which this rank updates a part, by name. */
  readonly sharded: Map<string, ShardedParameter> = new Map();
  /** What averages gradients of whole parameters, and of parts, by mesh axis. */
  readonly reducers: Map<string, Reducer> = new Map();
  readonly gradientReducers: Map<string, GradientReducer> = new Map();
  readonly hooks: PassHooks[] = [];
  /** Null where each rank keeps its own buffers. */
  buffers: { readonly axes: readonly string[]; readonly sharing: BufferSharing } | null = null;
  readonly #planned: ReadonlyMap<string, ParameterPlan>;
  readonly #whenSharded: ((name: string, part: ShardedPart) => Promise<void>)[] = [];

  constructor(plan: Plan<PlanContext>, model: Module) {
    this.plan = plan;
    this.model = model;
    this.#planned = new Map(plan.parameters.map((parameter) => [parameter.name, parameter]));
  }

  /** The model's parameters with their names, as the steps before have left them. */
  get parameters(): readonly (readonly [name: string, parameter: Parameter])[] {
    return this.model.namedParameters();
  }

  /** Those of which this rank has something: not what another rank of an axis has alone. */
  get heldParameters(): readonly (readonly [name: string, parameter: Parameter])[] {
    return this.parameters.filter(([, { part }]) => isHeldAt(part.layout, ownPlace));
  }

  /** What the plan says of a parameter. Throws LayoutError for one that it does not have. */
  plannedOf(name: string): ParameterPlan {
    const planned = this.#planned.get(name);
    if (planned !== undefined) return planned;
    throw new LayoutError(
      {
        asked: `to carry out a plan of '${this.plan.strategy}'`,
        found: `the model has a parameter '${name}', and the plan has not`,
        todo: 'Make the plan of this model: planFor(model, strategy)',
      },
      { parameter: name },
    );
  }

  /** Runs `body` for each parameter that this rank keeps only a part of, or will: as soon as it does. */
  async whenSharded(body: (name: string, part: ShardedPart) => Promise<void>): Promise<void> {
    this.#whenSharded.push(body);
    for (const [name, { part }] of this.sharded) await body(name, part);
  }

  /** Is told by a step that has put a part in the place of a parameter. */
  async noteSharded(name: string, parameter: ShardedParameter): Promise<void> {
    this.sharded.set(name, parameter);
    for (const body of this.#whenSharded) await body(name, parameter.part);
  }
}
