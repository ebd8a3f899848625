import type { ValueType } from '@shardwise/core/spec';
import { isFusable, wasmHandles } from '../wasm/handles.ts';
import type { Dataflow } from './dataflow.ts';
import { isGroupedStep } from './grouped-step.ts';
import { type OwnProducts, productOf } from './product-step.ts';
import { valueAt, type Step } from './step.ts';

/** What kernels can take over from ONNX Runtime: those in WebAssembly, and products in machine code. */
export interface KernelSupport {
  /** Whether a kernel computes the step. */
  computes(step: Step, values: readonly ValueType[]): boolean;
  /** Whether a loop over elements can contain it. */
  fuses(step: Step, values: readonly ValueType[]): boolean;
  /** Whether it is a product that machine code makes. */
  multiplies(step: Step, values: readonly ValueType[], flow: Dataflow): boolean;
}

function inputTypes(step: Step, values: readonly ValueType[]): ValueType[] {
  return step.inputs.map((id) => valueAt(values, id));
}

/** `own` says which products there is machine code for; null for none. */
export function kernelSupport(own: OwnProducts | null): KernelSupport {
  return {
    computes: (step, values) => {
      const types = inputTypes(step, values);
      return isFusable(step, types) || wasmHandles(step, types);
    },
    fuses: (step, values) => isFusable(step, inputTypes(step, values)),
    multiplies: (step, values, flow) =>
      isGroupedStep(step) || productOf(step, values, flow, own) !== undefined,
  };
}
