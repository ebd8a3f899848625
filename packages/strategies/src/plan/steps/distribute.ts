import {
  broadcast,
  type CollectivePlan,
  currentSession,
  dtypes,
  elementCount,
  LayoutError,
  noGrad,
  type Parameter,
  type Tensor,
} from '@shardwise/core/extend';
import { markAveraged, requireUnaveraged } from '../averaged-parameters.ts';
import { BufferSharing } from '../../buffer-sharing.ts';
import { axisSize } from '../../layout/axis-size.ts';
import { lowerPrecision } from '../../mixed-precision/lower-precision.ts';
import { requireFloat32 } from '../../mixed-precision/require-float32.ts';
import { requireSameModel } from '../same-model.ts';
import { GradientReducer } from '../../sharding/gradient-reducer.ts';
import { shardedPart } from '../../sharding/sharded-part-of.ts';
import { ShardedParameter } from '../../sharding/sharded-parameter.ts';
import { requireWhole } from '../whole-parameters.ts';
import type { PlanContext } from '../plan-context.ts';
import { bytesOver, collectedDtypeOf, shapeWithout, shardingOf } from '../planned-bytes.ts';
import { type ModelPlan, Step, type StepKind, stepsOf } from '../step.ts';
import { reduce } from './reduce.ts';

/** The ranks of an axis, which have other batches, get the states of rank 0's model as the plan lays them out. */
export interface Distribute {
  readonly axis: string;
  /** A mesh axis whose ranks hold the same, and have other batches. */
  readonly replicas?: string;
  /** Of those that each rank updates a part of and all keep, the ones with a gradient in the latest pass. Default: not known, and all are listed. */
  readonly latest?: ReadonlySet<string>;
}

export const distribute: StepKind<Distribute> = {
  name: 'distribute',
  collectives({ axis, replicas, latest }, plan) {
    const size = axisSize(plan.axes, axis);
    const parameters = plan.parameters.map(({ name }) => name);
    const bytes = plan.parameters.reduce(
      (sum, planned) =>
        sum + elementCount(shapeWithout(plan, planned, axis)) * dtypes[planned.dtype].bytes,
      0,
    );
    const axes = [axis, ...(replicas === undefined ? [] : [replicas])];
    const found = axes
      .filter((each) => axisSize(plan.axes, each) > 1)
      .map((each): CollectivePlan => {
        return { operation: 'broadcast', axis: each, when: 'start', parameters, bytes };
      });
    if (size === 1) return found;
    // What each rank updates a part of, and all keep.
    const shared = plan.parameters.filter(
      (planned) =>
        planned.requiresGrad &&
        latest?.has(planned.name) !== false &&
        shardingOf(planned, 'optimizer', axis) !== null &&
        shardingOf(planned, 'parameter', axis) === null,
    );
    return [
      ...found,
      ...shared.map((planned): CollectivePlan => {
        const own = bytesOver(plan, planned, axis, collectedDtypeOf(plan, planned));
        return {
          operation: 'allGather',
          axis,
          when: 'optimizer',
          parameters: [planned.name],
          bytes: own,
        };
      }),
    ];
  },
  check(data, context) {
    requireUnaveraged(`${context.plan.strategy} of a model`, context.parameters);
    for (const [name, { part, initialPart }] of context.parameters) {
      const planned = context.plannedOf(name);
      const sharding = shardingOf(planned, 'optimizer', data.axis);
      if (sharding === null && initialPart !== null)
        requireWhole(`${context.plan.strategy} of a model`, context.parameters);
      if (sharding !== null) requireFloat32('to share out', part);
      if (planned.requiresGrad) requireReduced(name, data, context);
    }
  },
  async apply(data, context) {
    const { axis, replicas } = data;
    const { model, plan } = context;
    const { mesh } = currentSession();
    const axes = replicas === undefined ? [axis] : [axis, replicas];
    const named = context.parameters;
    const buffers = model.namedBuffers();
    const tensors: (readonly [string, Tensor])[] = [...named, ...buffers];
    for (const each of axes) await requireSameModel(tensors, mesh.group(each));
    const ofRankZero = (x: Tensor): Tensor => axes.reduce((y, each) => broadcast(y, each), x);
    const isSharded = (name: string): boolean =>
      shardingOf(context.plannedOf(name), 'optimizer', axis) !== null;
    const whole = named.filter(([name]) => !isSharded(name));
    noGrad(() => {
      for (const [, { part }] of whole) part.assign(ofRankZero(part));
    });
    await currentSession().realize([]);
    const reducer = new GradientReducer({ axis, replicas });
    const groupOf = new Map(
      stepsOf(plan, reduce).flatMap((step, index) =>
        step.data.axis === axis ? step.data.parameters.map((name) => [name, index] as const) : [],
      ),
    );
    for (const [name, parameter] of named.filter(([each]) => isSharded(each))) {
      const part = await shardedPart(parameter, {
        axis,
        planned: context.plannedOf(name),
        lowPrecision: plan.lowPrecision,
        ofRankZero,
      });
      const group = reducer.add(name, part, `${groupOf.get(name) ?? 'others'}`);
      const replacement = new ShardedParameter(part, parameter, group);
      replace(context, parameter, replacement);
      await context.noteSharded(name, replacement);
    }
    if (context.sharded.size > 0) {
      context.gradientReducers.set(axis, reducer);
      context.hooks.push({ planned: (plan) => withLatest(plan, axis, reducer) });
    }
    if (plan.lowPrecision !== undefined && whole.length > 0) {
      await lowerPrecision(model, new Set(whole.map(([name]) => name)), plan.lowPrecision);
    }
    const names = new Set(whole.map(([name]) => name));
    const averaged = context.parameters.flatMap(([name, each]) => (names.has(name) ? [each] : []));
    context.hooks.push({ detach: markAveraged(plan.strategy, averaged) });
    new BufferSharing(model).share(ofRankZero);
    await currentSession().realize([]);
  },
};

/** The plan with what the latest step has updated. */
function withLatest(plan: ModelPlan, axis: string, { latest }: GradientReducer): ModelPlan {
  if (latest === null) return plan;
  const steps = plan.steps.map((step) =>
    Step.is(step, distribute) && step.data.axis === axis ? step.with({ latest }) : step,
  );
  return { ...plan, steps };
}

function replace({ model }: PlanContext, parameter: Parameter, by: ShardedParameter): void {
  parameter.dispose();
  parameter.initialPart = null;
  model.replaceParameter(parameter, by);
}

/** Throws LayoutError for a parameter that the ranks would train apart. */
function requireReduced(name: string, { axis }: Distribute, { plan }: PlanContext): void {
  const isReduced = stepsOf(plan, reduce).some(
    ({ data }) => data.axis === axis && data.parameters.includes(name),
  );
  if (isReduced) return;
  throw new LayoutError(
    {
      asked: `a plan of '${plan.strategy}' that trains '${name}' on the ranks of '${axis}'`,
      found: `no step reduces its gradient over '${axis}', so that each rank would train its own`,
      todo: 'Name it in a reduce step, or freeze it',
    },
    { parameter: name, axis },
  );
}
