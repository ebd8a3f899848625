import { axisSize, type CollectivePlan, dtypes } from '@shardwise/core/extend';
import { allReduceHook } from './all-reduce-hook.ts';
import type { CommHook } from './comm-hook.ts';
import { Reducer } from './reducer.ts';
import type { UnusedPolicy } from './used-parameters.ts';
import { firstTwice, requireSameSettings } from '../plan/agreeing-steps.ts';
import { type BatchAxes, batchAxesOf } from '../plan/axes.ts';
import type { PlanContext } from '../plan/plan-context.ts';
import { planError } from '../plan/plan-error.ts';
import {
  bytesOver,
  gradientDtypeOf,
  ownerOf,
  plannedParameters,
  shardingOf,
} from '../plan/planned-bytes.ts';
import { type ModelPlan, type Step, type StepKind, stepsOf, stepsOver } from '../plan/step.ts';

/** Parameters whose gradients are sent together, as soon as the backward pass has reached the last of them. */
export interface Reduce extends BatchAxes {
  /**
   * The names of the parameters. If each rank updates a part of a parameter, it gets that part of the mean. Otherwise
   * it gets the whole mean.
   */
  readonly parameters: readonly string[];
  /**
   * Limits of the first and of the later buckets of whole gradients. Buckets that were filled by these limits
   * are filled again in the order in which gradients arrive. Other buckets stay as the plan says. Default: all
   * stay.
   */
  readonly limitsBytes?: readonly number[];
  /** How whole gradients are averaged. Default: an all-reduce. */
  readonly hook?: CommHook;
  /** Which parameters may be left unused by the losses. Default: 'all', so that an unused parameter is an error. */
  readonly unused?: UnusedPolicy;
  /** The parameters in parts that the latest pass reduced. Default: not known, and all are listed. */
  readonly latest?: ReadonlySet<string>;
}

/** The kind of the step `Reduce`: averages gradients over ranks that have different batches. */
export const reduce: StepKind<Reduce> = {
  name: 'reduce',
  collectives({ axis, replicas, parameters, hook, latest }, plan) {
    const trained = plannedParameters(plan, parameters).filter(({ requiresGrad }) => requiresGrad);
    const sharded = trained.filter((each) => shardingOf(each, 'optimizer', axis) !== null);
    const whole = trained.filter((each) => shardingOf(each, 'optimizer', axis) === null);
    const when = 'backward';
    const size = axisSize(plan.axes, axis);
    const replicaCount = replicas === undefined ? 1 : axisSize(plan.axes, replicas);
    const found: CollectivePlan[] = [];
    for (const planned of sharded) {
      if (latest?.has(planned.name) === false) continue;
      const bytes = bytesOver(plan, planned, axis, gradientDtypeOf(plan, planned));
      const common = { when, parameters: [planned.name], ...ownerOf(planned) } as const;
      if (size > 1) found.push({ operation: 'reduceScatter', axis, bytes, ...common });
      if (replicas === undefined || replicaCount === 1) continue;
      found.push({ operation: 'allReduce', axis: replicas, bytes: bytes / size, ...common });
    }
    const operation = hook === undefined || hook.sentAs !== undefined ? 'allReduce' : 'commHook';
    // A rank of a pipeline has only those gradients of a bucket that belong to its stages.
    const buckets = Map.groupBy(whole, ({ parameter: { only } }) => only?.rank);
    for (const bucket of buckets.values()) {
      const bytes = bucket.reduce((sum, planned) => {
        const dtype = gradientDtypeOf(plan, planned);
        const { sentAs = 'own' } = hook ?? {};
        const own = bytesOver(plan, planned, axis, dtype);
        return sum + (own / dtypes[dtype].bytes) * dtypes[sentAs === 'own' ? dtype : sentAs].bytes;
      }, 0);
      const parameters = bucket.map(({ name }) => name);
      const message = { operation, when, parameters, bytes, ...ownerOf(bucket[0]) } as const;
      if (size > 1) found.push({ ...message, axis });
      if (replicas !== undefined && replicaCount > 1) found.push({ ...message, axis: replicas });
    }
    return found;
  },
  check(data, context) {
    const steps = stepsOf(context.plan, reduce);
    if (steps[0]?.data === data) requireOneReduction(steps, context.plan);
    requireHookFits(data, context);
  },
  apply(data, context) {
    const { axis, hook, unused = 'all', replicas, limitsBytes = null } = data;
    const steps = stepsOver(context.plan, reduce, axis);
    // One reducer carries out all steps, because it must know all buckets.
    if (steps[0]?.data !== data) return;
    // Includes parameters that do not train now, because they may train later.
    const whole = context.heldParameters.filter(([name]) => !context.sharded.has(name));
    const isWhole = new Set(whole.map(([name]) => name));
    const buckets = steps
      .map(({ data: { parameters } }) => parameters.filter((name) => isWhole.has(name)))
      .filter((names) => names.length > 0);
    if (buckets.length === 0) return;
    const reducer = new Reducer(
      whole.map(([name, { part }]) => [name, part] as const),
      {
        axis,
        model: context.numbers.suffix(axis),
        buckets,
        limitsBytes,
        unused,
        hook: hook ?? allReduceHook(1, replicas),
        gradientDtype: context.plan.lowPrecision?.gradientDtype,
      },
    );
    context.reducers.set(axis, reducer);
    context.hooks.push({
      detach: () => reducer.detach(),
      planned: (plan) => withBuckets(plan, axis, reducer.bucketNames),
    });
  },
};

/** Throws LayoutError if a gradient is reduced twice, and if one reducer cannot do what all steps say. */
function requireOneReduction(steps: readonly Step<Reduce>[], plan: ModelPlan): void {
  const twice = firstTwice(steps.flatMap(({ data }) => data.parameters));
  if (twice !== undefined) {
    const todo = 'Name each parameter in one reduce step';
    const asked = `that reduces the gradient of '${twice}'`;
    throw planError(plan, { asked, found: 'two steps that reduce it', todo }, { parameter: twice });
  }
  requireSameSettings(plan, steps, ({ axis, replicas, hook, unused = 'all', limitsBytes }) => {
    return { axis, replicas, hook, unused, limitsBytes };
  });
}

/** Throws LayoutError if the hook would not get all gradients. */
function requireHookFits(data: Reduce, context: PlanContext): void {
  const { axis, replicas, hook, parameters } = data;
  if (hook === undefined) return;
  if (replicas !== undefined) {
    throw planError(
      context.plan,
      {
        asked: `that reduces gradients over ${batchAxesOf(data).join(', ')} by a hook`,
        found: 'a hook averages over one axis',
        todo: 'Leave out the hook or the replicas',
      },
      { axis, replicas },
    );
  }
  const sharded = parameters.find(
    (name) => shardingOf(context.plannedOf(name), 'optimizer', axis) !== null,
  );
  if (sharded === undefined) return;
  throw planError(
    context.plan,
    {
      asked: `that reduces the gradient of '${sharded}' by a hook`,
      found: `each rank of '${axis}' updates a part of it, and gets the mean of that part without a hook`,
      todo: 'Leave out the hook, or have all ranks update the whole',
    },
    { parameter: sharded, axis },
  );
}

/** Returns the plan with the present buckets of whole gradients. */
function withBuckets(
  plan: ModelPlan,
  axis: string,
  buckets: readonly (readonly string[])[],
): ModelPlan {
  const own = stepsOver(plan, reduce, axis);
  const [first] = own;
  if (first?.data.limitsBytes === undefined) return plan;
  const whole = new Set(buckets.flat());
  const parts = own
    .map((step) =>
      step.with({ parameters: step.data.parameters.filter((name) => !whole.has(name)) }),
    )
    .filter(({ data }) => data.parameters.length > 0);
  const isOwn = new Set<object>(own);
  const at = plan.steps.findIndex((step) => isOwn.has(step));
  const others = plan.steps.filter((step) => !isOwn.has(step));
  const now = buckets.map((parameters) => first.with({ parameters }));
  return { ...plan, steps: others.toSpliced(at, 0, ...now, ...parts) };
}
