import type { ValueType } from '@shardwise/core/spec';
import { isFusable, wasmHandles } from '../wasm/handles.ts';
import { valueAt, type Step } from './step.ts';

/** What the WebAssembly kernels can take over from ONNX Runtime. */
export interface KernelSupport {
  /** Whether a kernel computes the step. */
  computes(step: Step, values: readonly ValueType[]): boolean;
  /** Whether a loop over elements can contain it. */
  fuses(step: Step, values: readonly ValueType[]): boolean;
}

function inputTypes(step: Step, values: readonly ValueType[]): ValueType[] {
  return step.inputs.map((id) => valueAt(values, id));
}

export const kernelSupport: KernelSupport = {
  computes: (step, values) => {
    const types = inputTypes(step, values);
    return isFusable(step, types) || wasmHandles(step, types);
  },
  fuses: (step, values) => isFusable(step, inputTypes(step, values)),
};
