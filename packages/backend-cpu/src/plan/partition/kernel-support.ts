import type { ValueType } from '@shardwise/core/spec';
import { isFusable, wasmHandles } from '../../kernels/handles.ts';
import { isAttentionStep } from '../../program/attention-instructions.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import { isGroupedStep } from '../../program/product-instructions.ts';
import type { Rest } from './fallback-engine.ts';
import { type OwnProducts, productOf } from '../products/product-of.ts';
import { valueAt, type Step } from '../../program/instruction.ts';

/** Says what can compute a step: kernels, products of ours, or the rest. */
export interface KernelSupport {
  /** Whether a kernel computes the step. */
  computes(step: Step, values: readonly ValueType[]): boolean;
  /** Whether a fused loop over elements can contain the step. */
  fuses(step: Step, values: readonly ValueType[]): boolean;
  /** What computes the steps that neither kernels nor products of ours compute. */
  readonly rest: Pick<Rest, 'kind' | 'isChoice' | 'withPreferred'>;
  /** Divides consecutive products of ours into lists. One piece computes all steps of a list. */
  piecesOf(steps: readonly Step[]): readonly (readonly Step[])[];
  /** Whether the step is a product of ours. */
  multiplies(step: Step, values: readonly ValueType[], flow: Dataflow): boolean;
}

function inputTypes(step: Step, values: readonly ValueType[]): ValueType[] {
  return step.inputs.map((id) => valueAt(values, id));
}

/** `own` says which products our own code computes. Null means none. */
export function kernelSupport(own: OwnProducts | null, rest: Rest): KernelSupport {
  return {
    rest,
    computes: (step, values) => {
      const types = inputTypes(step, values);
      return isFusable(step, types) || wasmHandles(step, types);
    },
    fuses: (step, values) => isFusable(step, inputTypes(step, values)),
    piecesOf: (steps) => own?.attention?.piecesOf(steps) ?? steps.map((step) => [step]),
    multiplies: (step, values, flow) =>
      isGroupedStep(step) ||
      isAttentionStep(step) ||
      productOf(step, values, flow, own) !== undefined,
  };
}
