import { axisSize, type CollectivePlan, currentSession, noGrad } from '@shardwise/core/extend';
import { BufferBroadcasts } from './broadcast-buffers.ts';
import { reduce } from './reduce.ts';
import { requireFloat32 } from '../mixed-precision/require-float32.ts';
import { requireOneStep } from '../plan/agreeing-steps.ts';
import { markAveraged, requireUnaveraged } from '../plan/averaged-parameters.ts';
import { type BatchAxes, batchAxesOf } from '../plan/axes.ts';
import { requireFittingStates } from '../plan/fitting-states.ts';
import { ofRankZero } from '../plan/from-rank-zero.ts';
import type { NamedParameters, PartReducer, PlanContext } from '../plan/plan-context.ts';
import { planError } from '../plan/plan-error.ts';
import {
  bytesOver,
  collectedDtypeOf,
  ownerOf,
  shardingOf,
  startBroadcasts,
} from '../plan/planned-bytes.ts';
import { requireSameModel } from '../plan/same-model.ts';
import { mapStepsOver, type ModelPlan, Step, type StepKind, stepsOver } from '../plan/step.ts';

/**
 * The ranks of an axis, which have different batches, get the states of rank 0's model in the layouts of the
 * plan.
 */
export interface Distribute extends BatchAxes {
  /**
   * The names of those parameters that all ranks keep and of which each rank updates a part, if they had a gradient in
   * the latest pass. Default: not known, and all are listed.
   */
  readonly latest?: ReadonlySet<string>;
}

/** The kind of the step `Distribute`. */
export const distribute: StepKind<Distribute> = {
  name: 'distribute',
  collectives({ axis, replicas, latest }, plan) {
    const start = startBroadcasts(plan, { axis, replicas });
    if (axisSize(plan.axes, axis) === 1) return start;
    // The parameters that all ranks keep and of which each rank updates a part.
    const shared = plan.parameters.filter(
      (planned) =>
        planned.requiresGrad &&
        latest?.has(planned.name) !== false &&
        shardingOf(planned, 'optimizer', axis) !== null &&
        shardingOf(planned, 'parameter', axis) === null,
    );
    return [
      ...start,
      ...shared.map((planned): CollectivePlan => {
        const own = bytesOver(plan, planned, axis, collectedDtypeOf(plan, planned));
        return {
          operation: 'allGather',
          axis,
          when: 'optimizer',
          parameters: [planned.name],
          bytes: own,
          ...ownerOf(planned),
        };
      }),
    ];
  },
  axisUses: (data) => batchAxesOf(data).map((axis) => ({ axis, divides: 'batch' })),
  precedes: (_, other) => Step.is(other, reduce),
  check(data, context) {
    const { plan, parameters } = context;
    requireOneStep(plan, distribute);
    const asked = `${plan.strategy} of a model`;
    const { sharded } = shardedAndWhole(data.axis, context);
    requireUnaveraged(asked, parameters);
    for (const [, { part }] of sharded) requireFloat32('to shard', part);
    for (const [name] of parameters) {
      requireFittingStates(plan, context.plannedOf(name), data.axis, 'nested');
    }
    requireReduced(data, context);
  },
  async apply(data, context) {
    const { axis } = data;
    const { model, plan, hooks } = context;
    const session = currentSession();
    const axes = batchAxesOf(data);
    for (const each of axes) await requireSameModel(context, session.mesh.group(each));
    const { sharded, whole } = shardedAndWhole(axis, context);
    noGrad(() => {
      for (const [, { part }] of whole) part.assign(ofRankZero(part, axes));
    });
    await session.realize([]);
    if (sharded.length > 0) {
      const reductions = stepsOver(plan, reduce, axis).map(({ data: each }) => each);
      const groups = reductions.map(({ parameters }) => parameters);
      const findUnusedParameters = reductions[0]?.unused === 'any';
      const reducer = await context.shardParameters(sharded, {
        over: data,
        groups,
        findUnusedParameters,
      });
      context.partReducers.set(axis, reducer);
      hooks.push({ planned: (now) => withLatest(now, axis, reducer) });
    }
    const names = new Set(whole.map(([name]) => name));
    await context.lowerPrecision(names);
    const averaged = context.parameters.filter(([name]) => names.has(name));
    hooks.push({
      detach: markAveraged(
        plan.strategy,
        averaged.map(([, each]) => each),
      ),
    });
    new BufferBroadcasts(model).send((message) => ofRankZero(message, axes));
    await session.realize([]);
  },
};

/**
 * Returns this rank's parameters of which the ranks of an axis each update a part, and its other parameters, by name.
 */
function shardedAndWhole(
  axis: string,
  context: PlanContext,
): Readonly<Record<'sharded' | 'whole', NamedParameters>> {
  const isSharded = (name: string): boolean =>
    shardingOf(context.plannedOf(name), 'optimizer', axis) !== null;
  return {
    sharded: context.heldParameters.filter(([name]) => isSharded(name)),
    whole: context.heldParameters.filter(([name]) => !isSharded(name)),
  };
}

/** Returns the plan with the parameters that the latest pass has reduced, which the following step updates. */
function withLatest(plan: ModelPlan, axis: string, { latest }: PartReducer): ModelPlan {
  if (latest === null) return plan;
  const updated = mapStepsOver(plan, distribute, axis, (step) => step.with({ latest }));
  return mapStepsOver(updated, reduce, axis, (step) => step.with({ latest }));
}

/** Throws LayoutError for a parameter whose gradient is not averaged, because the ranks' values would drift apart. */
function requireReduced(over: Distribute, context: PlanContext): void {
  const { plan, parameters } = context;
  const { axis } = over;
  const steps = stepsOver(plan, reduce, axis);
  const reduced = new Set(steps.flatMap(({ data }) => data.parameters));
  const apart = parameters.find(
    ([name]) => context.plannedOf(name).requiresGrad && !reduced.has(name),
  );
  if (apart !== undefined) {
    const [name] = apart;
    throw planError(
      plan,
      {
        asked: `that trains '${name}' on the ranks of '${axis}'`,
        found: `no step reduces its gradient over '${axis}', so each rank would train its own copy`,
        todo: 'Name it in a reduce step, or freeze it',
      },
      { parameter: name, axis },
    );
  }
  const other = steps.find(({ data }) => data.replicas !== over.replicas);
  if (other === undefined) return;
  throw planError(
    plan,
    {
      asked: `that reduces gradients over ${batchAxesOf(other.data).join(', ')}`,
      found: `its step 'distribute' gives the model to the ranks of ${batchAxesOf(over).join(', ')}`,
      todo: 'Give both the same axis and replicas',
    },
    { axis },
  );
}
