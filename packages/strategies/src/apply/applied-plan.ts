import {
  currentSession,
  isHeldAt,
  LayoutError,
  type MeshAxis,
  type Module,
  ownPlace,
  type Parameter,
  type ParameterPlan,
  type Plan,
  type ProcessGroup,
  type Tensor,
} from '@shardwise/core/extend';
import type {
  NamedParameters,
  PartReducer,
  PassHooks,
  PlanContext,
  ShardingRequest,
  WholeReducer,
} from '../plan/plan-context.ts';

/** A plan while it is applied to this rank's model, and what its steps have added to the model's passes. */
export class AppliedPlan implements PlanContext {
  readonly plan: Plan<PlanContext>;
  readonly model: Module;
  readonly hooks: PassHooks[] = [];
  readonly numbers: ModelNumbers;
  readonly reducers: Map<string, WholeReducer> = new Map();
  readonly partReducers: Map<string, PartReducer> = new Map();
  buffers: PlanContext['buffers'] = null;
  readonly #sharded = new Map<string, Parameter>();
  readonly #planned: ReadonlyMap<string, ParameterPlan>;
  readonly #whenSharded: ((name: string, part: Tensor) => Promise<void>)[] = [];

  constructor(plan: Plan<PlanContext>, model: Module) {
    this.plan = plan;
    this.model = model;
    this.numbers = new ModelNumbers(plan.axes);
    this.#planned = new Map(plan.parameters.map((parameter) => [parameter.name, parameter]));
  }

  get sharded(): ReadonlyMap<string, Parameter> {
    return this.#sharded;
  }

  get parameters(): NamedParameters {
    return this.model.namedParameters();
  }

  get heldParameters(): NamedParameters {
    return this.parameters.filter(([, { part }]) => isHeldAt(part.layout, ownPlace));
  }

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

  async shardParameters(named: NamedParameters, request: ShardingRequest): Promise<PartReducer> {
    const { shardParameters } = await import('./loaded-on-demand.ts');
    return shardParameters(named, request, this, async (name, parameter) => {
      this.#sharded.set(name, parameter);
      for (const body of this.#whenSharded) await body(name, parameter.part);
    });
  }

  async lowerPrecision(names: ReadonlySet<string>): Promise<void> {
    const { lowPrecision } = this.plan;
    if (lowPrecision === undefined || names.size === 0) return;
    const { lowerPrecision } = await import('./loaded-on-demand.ts');
    await lowerPrecision(this.model, names, lowPrecision);
  }

  async whenSharded(body: (name: string, part: Tensor) => Promise<void>): Promise<void> {
    this.#whenSharded.push(body);
    for (const [name, { part }] of this.#sharded) await body(name, part);
  }
}

/** The number of models of this rank that have been planned over a group. Its ranks have planned as many. */
const counts = new WeakMap<ProcessGroup, number>();

/**
 * Tells the collectives of a model from those of other models, whose parameters and layers may have the same names. On
 * each axis, the models of the ranks are numbered in the order in which plans were applied to them.
 */
class ModelNumbers {
  readonly #numbers: ReadonlyMap<string, number>;

  /** Counts a model whose plan has these axes. */
  constructor(axes: readonly MeshAxis[]) {
    const { mesh } = currentSession();
    const names = axes.map(({ name }) => name).filter((name) => hasAxis(mesh.axes, name));
    this.#numbers = new Map(
      names.map((name) => {
        const group = mesh.group(name);
        const number = (counts.get(group) ?? 0) + 1;
        counts.set(group, number);
        return [name, number] as const;
      }),
    );
  }

  /** What the name of a collective over an axis ends with: nothing for the first model, and then ` of model 2`. */
  suffix(axis: string): string {
    const number = this.#numbers.get(axis) ?? 1;
    return number === 1 ? '' : ` of model ${number}`;
  }
}

function hasAxis(axes: readonly MeshAxis[], name: string): boolean {
  return axes.some((axis) => axis.name === name);
}
