import {
  axisOf,
  axisSize,
  type CollectivePlan,
  currentSession,
  dtypes,
  elementCount,
  type Parameter,
  type ParameterPlan,
} from '@shardwise/core/extend';
import { distribute } from '../distributed-data-parallel/distribute.ts';
import { firstTwice, requireSameSettings } from '../plan/agreeing-steps.ts';
import type { PartReducer, PlanContext } from '../plan/plan-context.ts';
import { planError } from '../plan/plan-error.ts';
import {
  bytesOver,
  collectedDtypeOf,
  collectedShape,
  ownerOf,
  plannedParameters,
  shardingOf,
} from '../plan/planned-bytes.ts';
import {
  mapStepsOver,
  type ModelPlan,
  Step,
  type StepKind,
  stepsOf,
  stepsOver,
} from '../plan/step.ts';
import type { GradientReducer } from './units/gradient-reducer.ts';
import type { ShardedPlacement } from './parts/sharded-reader.ts';
import { BLOCK_ELEMENTS, quantizedBytes } from './quantized/quantize-rows.ts';
import { type AfterForward, afterForwardOf, makeReshardGroups } from './units/after-forward.ts';
import { checkUnits, installUnits } from './units/install-units.ts';
import type { ShardedUnit } from './units/sharded-unit.ts';

/**
 * Gathers a unit: parameters that are whole at the same time, while the forward or the backward pass of a module runs.
 */
export interface Gather {
  readonly axis: string;
  /** The path of the module; '' for the model. */
  readonly unit: string;
  readonly parameters: readonly string[];
  /**
   * Whether whole parameters are freed after the forward pass and gathered again in the backward pass. With a number,
   * each rank keeps a part of them, and this many neighbouring ranks together have all parts.
   */
  readonly reshardAfterForward: boolean | number;
  /** The parameters whose values are sent in 8 bits: all, or those that do not train. Default: none. */
  readonly quantized?: 'all' | 'frozen' | undefined;
  /** The number of units that are gathered before they are used. It is the same in all units. */
  readonly prefetch: number;
  /**
   * The number of times that the latest passes have gathered each parameter: 0 if nothing reads it, and more than 1 if
   * its module runs several times. Default: not known, and each is listed once.
   */
  readonly latest?: Readonly<Record<'forward' | 'backward', Readonly<Record<string, number>>>>;
}

/**
 * The kind of the step `Gather`: a module computes with whole parameters, of which the ranks of an axis have
 * parts.
 */
export const gather: StepKind<Gather> = {
  name: 'gather',
  collectives({ axis, parameters, reshardAfterForward, latest, quantized }, plan) {
    const size = axisSize(plan.axes, axis);
    const scattered = plannedParameters(plan, parameters).filter(
      (planned) => shardingOf(planned, 'parameter', axis) !== null,
    );
    if (size === 1) return [];
    const gathers = (when: 'forward' | 'backward', over: string): CollectivePlan[] =>
      scattered.flatMap((planned) => {
        const elements = elementCount(collectedShape(plan, planned, axis)) / size;
        const bytes = isQuantized(planned, elements, quantized)
          ? size * quantizedBytes(elements, 8)
          : bytesOver(plan, planned, axis, collectedDtypeOf(plan, planned));
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
  explain(data, plan) {
    const { axis, quantized } = data;
    if (quantized === undefined || stepsOver(plan, gather, axis)[0]?.data !== data) return '';
    const which = quantized === 'all' ? 'parameters' : 'parameters that do not train';
    return `${which} are sent in 8 bits by blocks of ${BLOCK_ELEMENTS} elements`;
  },
  follows: (_, other) => Step.is(other, distribute),
  check(data, context) {
    const { axis, unit, reshardAfterForward } = data;
    requireGatheredWhereSharded(data, context);
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
        const parameters = each.parameters.flatMap((name) => shardedOf(name, context));
        const afterForward: AfterForward = afterForwardOf(each.reshardAfterForward, axis, size);
        return [each.unit, { parameters, afterForward }] as const;
      }),
    );
    for (const { parameters, quantized } of steps.map(({ data: each }) => each)) {
      for (const name of parameters) {
        const planned = context.plannedOf(name);
        for (const { part, reader } of shardedOf(name, context)) {
          if (isQuantized(planned, part.numel, quantized)) reader.sharded.quantizeGathers();
        }
      }
    }
    await makeReshardGroups(
      [...units.values()].map(({ afterForward }) => afterForward),
      axis,
    );
    const reducer = context.partReducers.get(axis);
    const {
      units: installed,
      beginPass,
      endPass,
    } = installUnits(context.model, units, {
      prefetch: data.prefetch,
      lowPrecision: context.plan.lowPrecision,
      backwardOrder: isGradientReducer(reducer) ? reducer.order : null,
    });
    context.hooks.push({
      beforeForward: beginPass,
      afterForward: endPass,
      planned: (now) => withLatest(now, axis, installed, namesOf(context)),
    });
  },
};

/** Whether a parameter is sent in 8 bits. Integers and parts without elements are sent as they are. */
function isQuantized(
  { dtype, requiresGrad }: ParameterPlan,
  elements: number,
  quantized: Gather['quantized'],
): boolean {
  const isChosen = quantized === 'all' || (quantized === 'frozen' && !requiresGrad);
  return isChosen && elements > 0 && dtypes[dtype].kind === 'float';
}

/** Returns the placement of the parameter of this name if this rank updates a part of it. */
function shardedOf(name: string, { sharded }: PlanContext): readonly ShardedPlacement[] {
  const placement = sharded.get(name)?.placement ?? null;
  return isSharded(placement) ? [placement] : [];
}

// The two classes are loaded only where parameters are sharded. They are recognized by a member, because instanceof
// would load them with every plan.
function isSharded(placement: Parameter['placement']): placement is ShardedPlacement {
  return placement !== null && 'reader' in placement;
}

function isGradientReducer(reducer: PartReducer | undefined): reducer is GradientReducer {
  return reducer !== undefined && 'order' in reducer;
}

function namesOf({ sharded }: PlanContext): ReadonlyMap<object, string> {
  return new Map([...sharded].map(([name, { part }]) => [part, name]));
}

/** Throws LayoutError if a unit gathers parts over another axis than the one whose ranks have them. */
function requireGatheredWhereSharded({ axis, parameters }: Gather, context: PlanContext): void {
  const { plan } = context;
  const own = new Set(parameters);
  for (const { data } of stepsOf(plan, distribute)) {
    if (data.axis === axis) continue;
    const found = context.heldParameters.find(
      ([name]) =>
        own.has(name) && shardingOf(context.plannedOf(name), 'optimizer', data.axis) !== null,
    );
    if (found === undefined) continue;
    const [name] = found;
    throw planError(
      plan,
      {
        asked: `that gathers '${name}' over '${axis}'`,
        found: `the ranks of '${data.axis}' have parts of it`,
        todo: `Gather it over '${data.axis}'`,
      },
      { parameter: name, axis: data.axis },
    );
  }
}

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
  requireSameSettings(plan, steps, ({ prefetch, quantized }) => ({ prefetch, quantized }));
}

/** Returns the plan with the parameters that the latest passes have read. */
function withLatest(
  plan: ModelPlan,
  axis: string,
  units: ReadonlyMap<string, ShardedUnit>,
  names: ReadonlyMap<object, string>,
): ModelPlan {
  return mapStepsOver(plan, gather, axis, (step) => {
    const unit = units.get(step.data.unit);
    if (unit?.hasRun !== true) return step;
    const timesIn = (pass: 'forward' | 'backward'): Readonly<Record<string, number>> =>
      Object.fromEntries(
        [...unit.gathers(pass)].map(([each, times]) => [names.get(each.part) ?? '', times]),
      );
    return step.with({ latest: { forward: timesIn('forward'), backward: timesIn('backward') } });
  });
}
