import { isHalfDType, type ValueType } from '@shardwise/core/spec';
import { isAttentionStep } from './attention-step.ts';
import { isFusable, wasmHandles } from '../wasm/handles.ts';
import { isNarrowProduct } from './narrow-products.ts';
import { inputAt, type Segment, type Step, valueAt } from './step.ts';

/** Whether a step casts f16 or bf16 to f32. */
export function isWidening(step: Step, values: readonly ValueType[]): boolean {
  if (step.op !== 'cast' || step.dtype !== 'f32') return false;
  const { dtype } = valueAt(values, inputAt(step, 0));
  return dtype === 'f16' || dtype === 'bf16';
}

/** Whether a step casts f32 to f16 or bf16. */
export function isNarrowing(step: Step, values: readonly ValueType[]): boolean {
  if (step.op !== 'cast' || (step.dtype !== 'f16' && step.dtype !== 'bf16')) return false;
  return valueAt(values, inputAt(step, 0)).dtype === 'f32';
}

/**
 * Whether only kernels can run a step. Sessions move 16-bit values as integers, and do not convert values that they
 * have moved.
 */
export function isKernelOnly(step: Step, values: readonly ValueType[]): boolean {
  const types = step.inputs.map((id) => valueAt(values, id));
  const isOfHalves = [step, ...types].some(({ dtype }) => isHalfDType(dtype));
  return isOfHalves && (isFusable(step, types) || wasmHandles(step, types));
}

function isOutsideSessions(step: Step, values: readonly ValueType[]): boolean {
  return isKernelOnly(step, values) || isNarrowProduct(step, values) || isAttentionStep(step);
}

/**
 * The ids of casts from f16 or bf16 to f32 that each piece repeats for itself. So there is never an f32 copy of all
 * parameters, nor of the 16-bit values that the forward pass keeps for the backward pass.
 */
export function repeatedWidenings({ steps, values, inputCount }: Segment): ReadonlySet<number> {
  const producers = new Map(steps.map((step) => [step.output, step]));
  const rootOf = (id: number): number => {
    const step = producers.get(id);
    return step?.op === 'reshape' ? rootOf(inputAt(step, 0)) : id;
  };
  // Sessions widen the value below an expand. They do not expand 16-bit values in order to reshape them.
  const widenedRootOf = (id: number): number => {
    const step = producers.get(id);
    return step?.op === 'expand' ? widenedRootOf(inputAt(step, 0)) : rootOf(id);
  };
  const readBySessions = new Set<number>();
  for (const step of steps) {
    if (step.op === 'reshape' || isOutsideSessions(step, values)) continue;
    for (const id of step.inputs) readBySessions.add(rootOf(id)).add(widenedRootOf(id));
  }
  const repeated = new Set<number>();
  for (const step of steps) {
    if (!isWidening(step, values)) continue;
    const root = widenedRootOf(inputAt(step, 0));
    const maker = producers.get(root);
    const isOfKernels =
      root < inputCount ||
      (maker !== undefined && maker.op !== 'expand' && isOutsideSessions(maker, values));
    if (isOfKernels && !readBySessions.has(root)) repeated.add(step.output);
  }
  return repeated;
}
