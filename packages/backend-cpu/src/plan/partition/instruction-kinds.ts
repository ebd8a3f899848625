import type { ValueType } from '@shardwise/core/spec';
import type { Dataflow } from '../../program/dataflow.ts';
import type { KernelSupport } from './kernel-support.ts';
import { isKernelOnly } from './repeated-casts.ts';
import { elementCount, valueAt, type Step } from '../../program/instruction.ts';
import type { StepKind } from '../../program/partition.ts';

/** Up to this many elements, a pass costs less than one more piece. */
const smallElements = 4096;

/** The kind of piece that each of `steps` should run in. The steps are in program order. */
export function stepKinds(
  steps: readonly Step[],
  values: readonly ValueType[],
  flow: Dataflow,
  support: KernelSupport,
): ReadonlyMap<Step, StepKind> {
  const kinds = new Map(steps.map((step) => [step, ownKind(step, values, flow, support)]));
  return support.rest.withPreferred(kinds, values, flow);
}

function ownKind(
  step: Step,
  values: readonly ValueType[],
  flow: Dataflow,
  support: KernelSupport,
): StepKind {
  if (support.multiplies(step, values, flow)) return 'product';
  if (!support.computes(step, values)) return support.rest.kind;
  const inputs = step.inputs.map((id) => valueAt(values, id));
  if (!support.rest.isChoice(step, inputs) || isKernelOnly(step, values)) return 'kernel';
  const sizes = [step, ...inputs].map(({ shape }) => elementCount(shape));
  return Math.max(...sizes) <= smallElements ? 'either' : 'kernel';
}
