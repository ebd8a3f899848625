import { axisOf, type CollectivePlan, currentSession } from '@shardwise/core/extend';
import { axisSize } from '../../layout/axis-size.ts';
import {
  type AfterForward,
  afterForwardOf,
  makeSharingGroups,
} from '../../sharding/after-forward.ts';
import { checkUnits, installUnits } from '../../sharding/install-units.ts';
import type { ShardedParameter } from '../../sharding/sharded-parameter.ts';
import type { ShardedUnit } from '../../sharding/sharded-unit.ts';
import { firstTwice, requireSameSettings } from '../agreeing-steps.ts';
import { planError } from '../plan-error.ts';
import {
  bytesOver,
  collectedDtypeOf,
  ownerOf,
  plannedParameters,
  shardingOf,
} from '../planned-bytes.ts';
import { gatherKey, type Gather } from '../step-keys.ts';
import { mapStepsOver, type ModelPlan, type Step, type StepKind, stepsOver } from '../step.ts';

/**
 * The kind of the step `Gather`: a module computes with whole parameters, of which the ranks of an axis have
 * parts.
 */
export const gather: StepKind<Gather> = {
  name: gatherKey.name,
  key: gatherKey,
  collectives({ axis, parameters, reshardAfterForward, latest }, plan) {
    const size = axisSize(plan.axes, axis);
    const scattered = plannedParameters(plan, parameters).filter(
      (planned) => shardingOf(planned, 'parameter', axis) !== null,
    );
    if (size === 1) return [];
    const gathers = (when: 'forward' | 'backward', over: string): CollectivePlan[] =>
      scattered.flatMap((planned) => {
        const bytes = bytesOver(plan, planned, axis, collectedDtypeOf(plan, planned));
        const parameters = [planned.name];
        const times = latest === undefined ? 1 : (latest[when][planned.name] ?? 0);
        return Array.from({ length: times }, (): CollectivePlan => {
          return {
            operation: 'allGather',
            axis: over,
            when,
            parameters,
            bytes,
            ...ownerOf(planned),
          };
        });
      });
    const after = afterForwardOf(reshardAfterForward, axis, size);
    return [
      ...gathers('forward', axis),
      ...(after.kind === 'keep'
        ? []
        : gathers('backward', after.kind === 'reshard' ? after.axis : axis)),
    ];
  },
  check(data, context) {
    const { axis, unit, reshardAfterForward } = data;
    checkUnits(context.model, [unit]);
    afterForwardOf(reshardAfterForward, axis, axisOf(currentSession().mesh, axis).size);
    const steps = stepsOver(context.plan, gather, axis);
    if (steps[0]?.data === data) requireApart(steps, context.plan);
  },
  async apply(data, context) {
    const { axis } = data;
    const steps = stepsOver(context.plan, gather, axis);
    // One call installs all units of an axis, because a unit gathers others ahead of their use.
    if (steps[0]?.data !== data) return;
    const { size } = axisOf(currentSession().mesh, axis);
    const units = new Map(
      steps.map(({ data: each }) => {
        const parameters = each.parameters.flatMap((name) => context.sharded.get(name) ?? []);
        const afterForward: AfterForward = afterForwardOf(each.reshardAfterForward, axis, size);
        return [each.unit, { parameters, afterForward }] as const;
      }),
    );
    await makeSharingGroups(
      [...units.values()].map(({ afterForward }) => afterForward),
      axis,
    );
    const {
      units: installed,
      beginPass,
      endPass,
    } = installUnits(context.model, units, {
      prefetch: data.prefetch,
      lowPrecision: context.plan.lowPrecision,
      backwardOrder: context.gradientReducers.get(axis)?.order ?? null,
    });
    context.hooks.push({
      beforeForward: beginPass,
      afterForward: endPass,
      planned: (now) => withLatest(now, axis, installed, context.sharded),
    });
  },
};

/** Throws LayoutError if two steps gather the same unit or parameter, or if steps differ in their settings. */
function requireApart(steps: readonly Step<Gather>[], plan: ModelPlan): void {
  const unit = firstTwice(steps.map(({ data }) => data.unit));
  const name = firstTwice(steps.flatMap(({ data }) => data.parameters));
  if (unit !== undefined) {
    const asked = `that gathers the unit '${unit}'`;
    throw planError(
      plan,
      { asked, found: 'two steps that gather it', todo: 'Join them' },
      { unit },
    );
  }
  if (name !== undefined) {
    const todo = 'Name each parameter in one gather step';
    const asked = `that gathers '${name}'`;
    throw planError(plan, { asked, found: 'two steps that gather it', todo }, { parameter: name });
  }
  requireSameSettings(plan, steps, ({ prefetch }) => ({ prefetch }));
}

/** Returns the plan with the parameters that the latest passes have read. */
function withLatest(
  plan: ModelPlan,
  axis: string,
  units: ReadonlyMap<string, ShardedUnit>,
  sharded: ReadonlyMap<string, ShardedParameter>,
): ModelPlan {
  const names = new Map([...sharded].map(([name, parameter]) => [parameter, name]));
  return mapStepsOver(plan, gather, axis, (step) => {
    const unit = units.get(step.data.unit);
    if (unit?.hasRun !== true) return step;
    const timesIn = (pass: 'forward' | 'backward'): Readonly<Record<string, number>> =>
      Object.fromEntries(
        [...unit.gathers(pass)].map(([each, times]) => [names.get(each) ?? '', times]),
      );
    return step.with({ latest: { forward: timesIn('forward'), backward: timesIn('backward') } });
  });
}
