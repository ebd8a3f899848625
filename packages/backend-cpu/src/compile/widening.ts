import type { ValueType } from '@shardwise/core/spec';
import { inputAt, type Segment, type Step, valueAt } from './step.ts';

/** Whether a step makes f32 values of f16 or bf16 ones. */
export function isWidening(step: Step, values: readonly ValueType[]): boolean {
  if (step.op !== 'cast' || step.dtype !== 'f32') return false;
  const { dtype } = valueAt(values, inputAt(step, 0));
  return dtype === 'f16' || dtype === 'bf16';
}

/** Whether a step makes f16 or bf16 values of f32 ones. */
export function isNarrowing(step: Step, values: readonly ValueType[]): boolean {
  if (step.op !== 'cast' || (step.dtype !== 'f16' && step.dtype !== 'bf16')) return false;
  return valueAt(values, inputAt(step, 0)).dtype === 'f32';
}

/**
 * Conversions of inputs that nothing else reads, by the ids of what they make: each piece makes the
 * f32 values that it needs, so that no copy of all parameters in f32 is there at any time.
 */
export function repeatedWidenings({ steps, values, inputCount }: Segment): ReadonlySet<number> {
  const producers = new Map(steps.map((step) => [step.output, step]));
  const rootOf = (id: number): number => {
    const step = producers.get(id);
    return step?.op === 'reshape' ? rootOf(inputAt(step, 0)) : id;
  };
  const readOtherwise = new Set<number>();
  for (const step of steps) {
    if (step.op === 'reshape' || isWidening(step, values)) continue;
    for (const id of step.inputs) readOtherwise.add(rootOf(id));
  }
  const repeated = new Set<number>();
  for (const step of steps) {
    if (!isWidening(step, values)) continue;
    const root = rootOf(inputAt(step, 0));
    if (root < inputCount && !readOtherwise.has(root)) repeated.add(step.output);
  }
  return repeated;
}
