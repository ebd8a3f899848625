import type { ValueType } from '@shardwise/core/spec';
import { isFusable, wasmHandles } from '../wasm/handles.ts';
import { isAttentionStep } from './attention-step.ts';
import type { Dataflow } from './dataflow.ts';
import { isGroupedStep } from './grouped-step.ts';
import type { Rest } from './rest.ts';
import { type OwnProducts, productOf } from './product-step.ts';
import { valueAt, type Step } from './step.ts';

/** Who can compute a step: kernels, products of ours, and the rest. */
export interface KernelSupport {
  /** Whether a kernel computes the step. */
  computes(step: Step, values: readonly ValueType[]): boolean;
  /** Whether a loop over elements can contain it. */
  fuses(step: Step, values: readonly ValueType[]): boolean;
  /** What computes what kernels and products of ours do not. */
  readonly rest: Pick<Rest, 'kind' | 'isChoice' | 'withPreferred'>;
  /** Products of ours that follow each other, in lists of those that one piece makes. */
  piecesOf(steps: readonly Step[]): readonly (readonly Step[])[];
  /** Whether it is a product of ours. */
  multiplies(step: Step, values: readonly ValueType[], flow: Dataflow): boolean;
}

function inputTypes(step: Step, values: readonly ValueType[]): ValueType[] {
  return step.inputs.map((id) => valueAt(values, id));
}

/** `own` says which products are ours; null for none. */
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
