import {
  type DividedParameter,
  isHeldAt,
  LayoutError,
  type Module,
  ownPlace,
  type ParameterPart,
  type ParameterPlan,
  type Plan,
} from '@shardwise/core/extend';
import type {
  NamedParameters,
  PartReducer,
  PassHooks,
  PlanContext,
  ShardingRequest,
  WholeReducer,
} from '../plan/plan-context.ts';
import { ModelNumbers } from './model-numbers.ts';

/** A plan while it is applied to this rank's model, and what its steps have added to the model's passes. */
export class AppliedPlan implements PlanContext {
  readonly plan: Plan<PlanContext>;
  readonly model: Module;
  readonly hooks: PassHooks[] = [];
  readonly numbers: ModelNumbers;
  readonly reducers: Map<string, WholeReducer> = new Map();
  readonly partReducers: Map<string, PartReducer> = new Map();
  buffers: PlanContext['buffers'] = null;
  readonly #sharded = new Map<string, DividedParameter>();
  readonly #planned: ReadonlyMap<string, ParameterPlan>;
  readonly #whenSharded: ((name: string, part: ParameterPart) => Promise<void>)[] = [];

  constructor(plan: Plan<PlanContext>, model: Module) {
    this.plan = plan;
    this.model = model;
    this.numbers = new ModelNumbers(plan.axes);
    this.#planned = new Map(plan.parameters.map((parameter) => [parameter.name, parameter]));
  }

  get sharded(): ReadonlyMap<string, DividedParameter> {
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

  async whenSharded(body: (name: string, part: ParameterPart) => Promise<void>): Promise<void> {
    this.#whenSharded.push(body);
    for (const [name, { part }] of this.#sharded) await body(name, part);
  }
}
