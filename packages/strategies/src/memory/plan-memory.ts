import {
  checkOptions,
  dtypes,
  elementCount,
  type Layout,
  option,
  type OptionRules,
  type ParameterPlan,
  type Plan,
  shardedAxes,
} from '@shardwise/core/extend';
import { localElements } from './local-bytes.ts';
import { type ElementBytes, statesFormula, type StatesFormula } from './states-formula.ts';
import { requirePlan } from '../plan/plan-error.ts';
import { collectedShape, lowPrecisionOf, type State } from '../plan/planned-bytes.ts';

/** Options of `planMemory`. */
export interface PlanMemoryOptions {
  /** The number of f32 tensors that the optimizer keeps for each parameter. Default: 2, as in Adam. */
  readonly optimizerTensors?: number;
  /**
   * The bytes of the forward pass that the backward pass reads, as `activationBytes` of core counts them.
   * Default: not known.
   */
  readonly activationBytes?: number;
}

export const planMemoryRules: OptionRules<PlanMemoryOptions> = {
  optimizerTensors: option.nonNegative,
  activationBytes: option.nonNegative,
};

/**
 * Bytes on one rank. If ranks do not divide a parameter equally, these are the bytes of the rank that has the
 * most.
 */
export interface PlanMemory {
  readonly parameterBytes: number;
  readonly gradientBytes: number;
  readonly optimizerBytes: number;
  /** The bytes of buffers. Null if the plan was made from parameters alone. */
  readonly bufferBytes: number | null;
  readonly activationBytes: number | null;
  /** The bytes of parameters, gradients and optimizer states. */
  readonly statesBytes: number;
  /** The formula of the bytes of states. Null if parameters are not all divided in the same way. */
  readonly formula: StatesFormula | null;
}

/** The bytes of the states of a plan on each rank between two steps. */
export function planMemory(plan: Plan, options: PlanMemoryOptions = {}): PlanMemory {
  checkOptions('planMemory', options, planMemoryRules);
  requirePlan('planMemory', plan);
  const [first, ...others] = holdersOf(plan).map((holder) => statesOf(plan, holder, options));
  const most = others.reduce(
    (largest, each) => (sumOf(each) > sumOf(largest) ? each : largest),
    first ?? statesOf(plan, null, options),
  );
  // Ranks that have different parameters have no common formula.
  const isOneModel = others.length === 0 || holdsAlone(plan).length === 1;
  return {
    parameterBytes: most.parameter,
    gradientBytes: most.gradient,
    optimizerBytes: most.optimizer,
    bufferBytes: bufferBytesOf(plan),
    activationBytes: options.activationBytes ?? null,
    statesBytes: sumOf(most),
    formula: isOneModel
      ? statesFormula(plan, (parameter) => elementBytes(parameter, plan, options))
      : null,
  };
}

type Holder = NonNullable<Layout['only']>;
type StatesBytes = Readonly<Record<State, number>>;

const states = ['parameter', 'gradient', 'optimizer'] as const satisfies readonly State[];

function sumOf({ parameter, gradient, optimizer }: StatesBytes): number {
  return parameter + gradient + optimizer;
}

/** Returns the ranks of an axis that are the only ones with some states, each rank once. */
export function holdsAlone(plan: Plan): Holder[] {
  const all = plan.parameters.flatMap((each) => states.flatMap((state) => each[state].only ?? []));
  return [...new Map(all.map((only) => [`${only.axis} ${only.rank}`, only])).values()];
}

/** Returns the ranks that may have more than others. It is a list of null if all have the same. */
function holdersOf(plan: Plan): (Holder | null)[] {
  const alone = holdsAlone(plan).toSorted((a, b) => a.rank - b.rank);
  return alone.length === 0 ? [null] : alone;
}

/** Returns the bytes of states on a rank. The rank is `holder`, or for null any rank that holds nothing alone. */
export function statesOf(
  plan: Plan,
  holder: Holder | null,
  options: PlanMemoryOptions = {},
): StatesBytes {
  const bytes = { parameter: 0, gradient: 0, optimizer: 0 };
  for (const parameter of plan.parameters) {
    const element = elementBytes(parameter, plan, options);
    for (const state of states) {
      const { only } = parameter[state];
      const isHere =
        only === undefined || (only.axis === holder?.axis && only.rank === holder.rank);
      if (isHere) bytes[state] += keptElements(plan, parameter, state) * element[state];
    }
  }
  return bytes;
}

/**
 * Returns the number of elements that a rank keeps of a parameter's state. Parameters that ranks keep whole and update
 * in equal parts have padding.
 */
function keptElements(plan: Plan, parameter: ParameterPlan, state: State): number {
  const { shape, optimizer, [state]: layout } = parameter;
  if (state === 'parameter') {
    const kept = shardedAxes(layout);
    const [axis] = shardedAxes(optimizer).filter((each) => !kept.includes(each));
    if (axis !== undefined) return elementCount(collectedShape(plan, parameter, axis));
  }
  return localElements(shape, layout, plan.axes);
}

function bufferBytesOf({ buffers }: Plan): number | null {
  if (buffers === undefined) return null;
  return buffers.reduce(
    (sum, { shape, dtype }) => sum + elementCount(shape) * dtypes[dtype].bytes,
    0,
  );
}

function elementBytes(
  planned: ParameterPlan,
  plan: Plan,
  { optimizerTensors = 2 }: PlanMemoryOptions,
): ElementBytes {
  const { dtype, requiresGrad } = planned;
  const lowPrecision = lowPrecisionOf(plan, planned);
  const { parameterDtype = dtype, gradientDtype = dtype } = lowPrecision ?? {};
  const copies = lowPrecision === undefined ? 0 : 1;
  const trained = requiresGrad ? 1 : 0;
  return {
    parameter: dtypes[parameterDtype].bytes,
    gradient: trained * dtypes[gradientDtype].bytes,
    optimizer: (copies + trained * optimizerTensors) * dtypes.f32.bytes,
  };
}
