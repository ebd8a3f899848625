import {
  checkOptions,
  dtypes,
  elementCount,
  option,
  type OptionRules,
  type ParameterPlan,
  type Plan,
  shardedAxes,
} from '@shardwise/core/extend';
import { collectedShape, type State } from '../plan/planned-bytes.ts';
import { localElements } from './local-bytes.ts';
import { type ElementBytes, statesFormula, type StatesFormula } from './states-formula.ts';

export interface PlanMemoryOptions {
  /** Tensors of f32 that the optimizer keeps of each parameter. Default: 2, which are Adam's. */
  readonly optimizerTensors?: number;
  /** What backward reads of the forward pass, as `activationBytes` of core counts it. Default: not known. */
  readonly activationBytes?: number;
}

export const planMemoryRules: OptionRules<PlanMemoryOptions> = {
  optimizerTensors: option.nonNegative,
  activationBytes: option.nonNegative,
};

/** Bytes on one rank. Where ranks do not divide a parameter, of the rank that has most. */
export interface PlanMemory {
  readonly parameterBytes: number;
  readonly gradientBytes: number;
  readonly optimizerBytes: number;
  /** Null where the plan was made from parameters alone. */
  readonly bufferBytes: number | null;
  readonly activationBytes: number | null;
  /** Parameters, gradients and optimizer states. */
  readonly statesBytes: number;
  /** Null where parameters are not cut alike. */
  readonly formula: StatesFormula | null;
}

/** What the states of a plan take on each rank between two steps. */
export function planMemory(plan: Plan, options: PlanMemoryOptions = {}): PlanMemory {
  checkOptions('planMemory', options, planMemoryRules);
  const bytes = { parameter: 0, gradient: 0, optimizer: 0 };
  for (const parameter of plan.parameters) {
    const element = elementBytes(parameter, plan, options);
    for (const state of ['parameter', 'gradient', 'optimizer'] as const) {
      bytes[state] += keptElements(plan, parameter, state) * element[state];
    }
  }
  const statesBytes = bytes.parameter + bytes.gradient + bytes.optimizer;
  return {
    parameterBytes: bytes.parameter,
    gradientBytes: bytes.gradient,
    optimizerBytes: bytes.optimizer,
    bufferBytes: bufferBytesOf(plan),
    activationBytes: options.activationBytes ?? null,
    statesBytes,
    formula: statesFormula(plan, (parameter) => elementBytes(parameter, plan, options)),
  };
}

/** The elements of a parameter that ranks keep whole and update in equal parts: with padding. */
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
  { dtype, requiresGrad }: ParameterPlan,
  { lowPrecision }: Plan,
  { optimizerTensors = 2 }: PlanMemoryOptions,
): ElementBytes {
  const { parameterDtype = dtype, gradientDtype = dtype } = lowPrecision ?? {};
  const copies = lowPrecision === undefined ? 0 : 1;
  const trained = requiresGrad ? 1 : 0;
  return {
    parameter: dtypes[parameterDtype].bytes,
    gradient: trained * dtypes[gradientDtype].bytes,
    optimizer: (copies + trained * optimizerTensors) * dtypes.f32.bytes,
  };
}
