import type { CollectivePlan, Plan, PlanStep } from '@shardwise/core/extend';
import type { PlanContext } from './plan-context.ts';
import { planError } from './plan-error.ts';

/** A plan that `parallelize` carries out. */
export type ModelPlan = Plan<PlanContext>;

/** A key by which code finds the steps of a kind without importing the code of the kind. */
export interface StepKey<Data extends object> {
  readonly name: string;
  /** The type of the data of the steps. It is only a type. */
  data?(data: Data): void;
}

/** The code of the steps of one kind. `data` is the data of one step. */
export interface StepKind<Data extends object> extends StepKey<Data> {
  /** The key by which steps of this kind are found. Default: the kind itself. */
  readonly key?: StepKey<Data>;
  collectives(data: Data, plan: Plan): readonly CollectivePlan[];
  /** Whether another step of the plan uses the result of this one and so must come after it. Default: none. */
  precedes?(data: Data, other: PlanStep): boolean;
  /** Throws if the step cannot be carried out, before anything changes. */
  check?(data: Data, context: PlanContext): void;
  apply(data: Data, context: PlanContext): void | Promise<void>;
  /** The text that `explain` prints in addition to layouts and messages of parameters. Default: nothing. */
  explain?(data: Data, plan: Plan): string;
}

/** A step of a kind. `with` makes edited copies. */
export class Step<Data extends object> implements PlanStep<PlanContext> {
  readonly #kind: StepKind<Data>;
  readonly data: Data;

  constructor(kind: StepKind<Data>, data: Data) {
    this.#kind = kind;
    this.data = data;
  }

  /** Whether a step is of this kind. */
  static is<Data extends object>(step: PlanStep, kind: StepKey<Data>): step is Step<Data> {
    return step instanceof Step && step.#isOf(kind);
  }

  #isOf(kind: object): boolean {
    return this.#kind === kind || this.#kind.key === kind;
  }

  get kind(): string {
    return this.#kind.name;
  }

  with(changes: Partial<Data>): Step<Data> {
    return new Step(this.#kind, { ...this.data, ...changes });
  }

  collectives(plan: Plan): readonly CollectivePlan[] {
    return this.#kind.collectives(this.data, plan);
  }

  check(context: PlanContext): void {
    this.#checkPlace(context.plan);
    this.#kind.check?.(this.data, context);
  }

  apply(context: PlanContext): void | Promise<void> {
    return this.#kind.apply(this.data, context);
  }

  /** The text for `explain`; '' if there is none. */
  explain(plan: Plan): string {
    return this.#kind.explain?.(this.data, plan) ?? '';
  }

  #checkPlace(plan: ModelPlan): void {
    const before = plan.steps.slice(0, plan.steps.indexOf(this));
    const early = before.find((step) => this.#kind.precedes?.(this.data, step));
    if (early === undefined) return;
    throw planError(
      plan,
      {
        asked: `with the step '${this.kind}'`,
        found: `a step '${early.kind}' stands before it`,
        todo: `Put '${this.kind}' before '${early.kind}'`,
      },
      { step: this.kind, before: early.kind },
    );
  }

  toJSON(): object {
    const printed = Object.entries(this.data).map(([key, value]: [string, unknown]) => {
      return [key, value instanceof Set ? [...value] : value];
    });
    return { kind: this.kind, ...Object.fromEntries(printed) };
  }
}

/** Returns the steps of a kind, in the order of the plan. */
export function stepsOf<Data extends object>(
  { steps }: Pick<Plan, 'steps'>,
  kind: StepKey<Data>,
): readonly Step<Data>[] {
  return steps.filter((step): step is Step<Data> => Step.is(step, kind));
}

/** Returns the steps of a kind that work over a mesh axis, in the order of the plan. */
export function stepsOver<Data extends OverAxis>(
  plan: Pick<Plan, 'steps'>,
  kind: StepKey<Data>,
  axis: string,
): readonly Step<Data>[] {
  return stepsOf(plan, kind).filter(({ data }) => data.axis === axis);
}

/** Returns the plan with changed steps of a kind over a mesh axis. */
export function mapStepsOver<Data extends OverAxis>(
  plan: ModelPlan,
  kind: StepKind<Data>,
  axis: string,
  change: (step: Step<Data>) => Step<Data>,
): ModelPlan {
  const steps = plan.steps.map((step) =>
    Step.is(step, kind) && step.data.axis === axis ? change(step) : step,
  );
  return { ...plan, steps };
}

interface OverAxis {
  readonly axis: string;
}

/** Returns the messages of a plan, at the start and in each training step. */
export function collectivesOf(plan: Plan): readonly CollectivePlan[] {
  return plan.steps.flatMap((step) => step.collectives(plan));
}
