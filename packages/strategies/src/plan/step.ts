import type { AttentionSizes } from './attention-sizes.ts';
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

/** What the ranks of a mesh axis have different parts of, by a step. */
export interface AxisUse {
  readonly axis: string;
  /**
   * `batch`: the ranks have the same model and different parts of the batch. `layers`: each computes a part of layers,
   * and all have the same batch. `layers and batch`: each computes a part of layers, and has a part of the batch.
   * `sequence`: the parts of the batch are parts of the same sequences. Another step shares the model over the axis.
   */
  readonly divides: 'batch' | 'layers' | 'layers and batch' | 'sequence';
}

/** One step that does the work of two, and whose place in the composed plan it takes. */
export interface MergedStep<Data extends object> {
  readonly data: Data;
  readonly place: 'outer' | 'inner';
}

/** The code of the steps of one kind. `data` is the data of one step. */
export interface StepKind<Data extends object> extends StepKey<Data> {
  /** The key by which steps of this kind are found. Default: the kind itself. */
  readonly key?: StepKey<Data>;
  collectives(data: Data, plan: Plan): readonly CollectivePlan[];
  /** Whether another step of the plan uses the result of this one and so must come after it. Default: none. */
  precedes?(data: Data, other: PlanStep): boolean;
  /** Whether this step uses the result of another step of the plan and so must come after it. Default: none. */
  follows?(data: Data, other: PlanStep): boolean;
  /**
   * What the ranks of which axes have different parts of. The types of inputs and parameters on these axes follow from
   * it. Default: nothing.
   */
  axisUses?(data: Data): readonly AxisUse[];
  /**
   * Merges a step of the outer and one of the inner of two composed plans, if one step can do the work of both. Null:
   * both stay. Default: both stay.
   */
  merge?(outer: Data, inner: Data): MergedStep<Data> | null;
  /** Throws if the step cannot be carried out, before anything changes. */
  check?(data: Data, context: PlanContext): void;
  apply(data: Data, context: PlanContext): void | Promise<void>;
  /**
   * The text that `explain` prints in addition to layouts and messages of parameters, with the sizes of
   * attention, if they are known. Default: nothing.
   */
  explain?(data: Data, plan: Plan, attention?: AttentionSizes): string;
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

  /** What the ranks of which axes have different parts of. */
  get axisUses(): readonly AxisUse[] {
    return this.#kind.axisUses?.(this.data) ?? [];
  }

  with(changes: Partial<Data>): Step<Data> {
    return new Step(this.#kind, { ...this.data, ...changes });
  }

  /** Whether this step must come after another one. */
  follows(other: PlanStep): boolean {
    return this.#kind.follows?.(this.data, other) === true;
  }

  /** Merges this step of a plan with one of a plan that is composed with it, of the same kind. Null: both stay. */
  mergedWith(
    inner: PlanStep,
  ): { readonly step: Step<Data>; readonly place: 'outer' | 'inner' } | null {
    if (!Step.is(inner, this.#kind)) return null;
    const merged = this.#kind.merge?.(this.data, inner.data) ?? null;
    return merged && { step: new Step(this.#kind, merged.data), place: merged.place };
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
  explain(plan: Plan, attention?: AttentionSizes): string {
    return this.#kind.explain?.(this.data, plan, attention) ?? '';
  }

  #checkPlace(plan: ModelPlan): void {
    const before = plan.steps.slice(0, plan.steps.indexOf(this));
    const early = before.find(
      (step) => this.#kind.precedes?.(this.data, step) === true || follows(step, this),
    );
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

/** Returns what the ranks of which axes have different parts of, by the steps of a plan, in their order. */
export function axisUsesOf({ steps }: Pick<Plan, 'steps'>): readonly AxisUse[] {
  return steps.flatMap(usesOf);
}

/** Whether ranks have different parts of the batch by a step, and the same model. */
export function dividesOnlyBatch(step: PlanStep): boolean {
  return usesOf(step).some(({ divides }) => divides === 'batch');
}

/** Returns the axes whose ranks each compute a part of layers, in the order of the plan. */
export function layerAxesOf(plan: Pick<Plan, 'steps'>): readonly string[] {
  return axisUsesOf(plan)
    .filter(({ divides }) => divides.startsWith('layers'))
    .map(({ axis }) => axis);
}

/** Returns the axes whose ranks have parts of the same sequences. */
export function sequenceAxesOf(plan: Pick<Plan, 'steps'>): readonly string[] {
  return axisUsesOf(plan)
    .filter(({ divides }) => divides === 'sequence')
    .map(({ axis }) => axis);
}

function follows(step: PlanStep, other: PlanStep): boolean {
  return step instanceof Step && step.follows(other);
}

function usesOf(step: PlanStep): readonly AxisUse[] {
  return step instanceof Step ? step.axisUses : [];
}

interface OverAxis {
  readonly axis: string;
}

/** Returns the messages of a plan, at the start and in each training step. */
export function collectivesOf(plan: Plan): readonly CollectivePlan[] {
  return plan.steps.flatMap((step) => step.collectives(plan));
}
