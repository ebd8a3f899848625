import { isHalfDType, type ValueType } from '@shardwise/core/spec';
import { isAttentionStep } from '../../program/attention-instructions.ts';
import { isFusable, wasmHandles } from '../../kernels/handles.ts';
import { inputAt, type Segment, type Step, valueAt } from '../../program/instruction.ts';
import { isNarrowProduct } from '../../program/product-instructions.ts';
import { isNarrowing, isWidening } from '../../program/half-casts.ts';

/**
 * Whether only kernels can run a step. Sessions move 16-bit values as integers, and do not convert values that they
 * have moved.
 */
export function isKernelOnly(step: Step, values: readonly ValueType[]): boolean {
  const types = step.inputs.map((id) => valueAt(values, id));
  const isOfHalves = [step, ...types].some(({ dtype }) => isHalfDType(dtype));
  return isOfHalves && (isFusable(step, types) || wasmHandles(step, types));
}

/**
 * The ids of casts that each piece repeats for itself, or that products make as they pack an operand. They are lazy, so
 * their results are not stored.
 */
export function repeatedCasts(segment: Segment): ReadonlySet<number> {
  return repeatedWidenings(segment).union(roundedByPacking(segment));
}

function isOutsideSessions(step: Step, values: readonly ValueType[]): boolean {
  return isKernelOnly(step, values) || isNarrowProduct(step, values) || isAttentionStep(step);
}

/**
 * The ids of casts from f16 or bf16 to f32 that each piece repeats for itself. So there is never an f32 copy of all
 * parameters, nor of the 16-bit values that the forward pass keeps for the backward pass.
 */
function repeatedWidenings({ steps, values, inputCount }: Segment): ReadonlySet<number> {
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

/**
 * The ids of program inputs rounded to bf16 that only products read. Packing such an operand rounds it, so that no
 * 16-bit copy of the weights is made.
 */
function roundedByPacking({ steps, values, inputCount }: Segment): ReadonlySet<number> {
  const rounded = new Set<number>();
  const roots = new Map<number, number>();
  for (const step of steps) {
    const isOfInput = isNarrowing(step, values) && inputAt(step, 0) < inputCount;
    if (isOfInput && step.dtype === 'bf16') {
      rounded.add(step.output);
      roots.set(step.output, step.output);
      continue;
    }
    const isView = step.op === 'reshape' || step.op === 'expand';
    for (const [index, id] of step.inputs.entries()) {
      const root = roots.get(id);
      if (root === undefined) continue;
      if (isView) roots.set(step.output, root);
      else if (!isNarrowProduct(step, values) || index > 1) rounded.delete(root);
    }
  }
  return rounded;
}
