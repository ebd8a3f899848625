import { OutOfMemoryError } from '@shardwise/core/spec';
import { describeTask, fieldsOf } from '../device/task.ts';
import type { Kernel } from '../emit/kernel.ts';
import { taskOf } from '../plan/task-of.ts';
import { type Values, wordsOf } from '../program/values.ts';
import { type Lifetime, type PlacedLifetimes, placeLifetimes } from '@shardwise/core/base';
import type { KernelPlan } from '../plan/kernel-plan.ts';

/** Throws OutOfMemoryError if a value that a kernel writes does not fit into a buffer. */
export function checkBytes(values: Values, kernel: Kernel, largestBytes: number): void {
  const large = kernel.writes.find((id) => 4 * wordsOf(values, id) > largestBytes);
  if (large === undefined) return;
  const byteLength = 4 * wordsOf(values, large);
  const task = taskOf(values, kernel);
  throw new OutOfMemoryError(
    {
      asked: `the device to compute ${describeTask(task)}`,
      found: `[${values.shape(large).join(', ')}] has ${byteLength} bytes, and one buffer may have ${largestBytes}`,
      todo: 'Use a smaller batch, or divide the model over more ranks',
    },
    { ...fieldsOf(task), instruction: values.origin(large), byteLength, largestBytes },
  );
}

const ALIGNMENT_BYTES = 16;

/**
 * Places the values that only kernels use. They take several pages, because no page may be larger than a binding or than a
 * buffer.
 */
export function placeTemporaries(plan: KernelPlan, largestBytes: number): PlacedLifetimes {
  const mostPageBytes = Math.min(plan.bindingBytes, largestBytes);
  return placeLifetimes(lifetimesOf(plan), { alignmentBytes: ALIGNMENT_BYTES, mostPageBytes });
}

function lifetimesOf({ values, kernels, outputs, inPlace, faults }: KernelPlan): Lifetime[] {
  const elsewhere = new Set([
    ...outputs,
    ...inPlace.keys(),
    ...(faults === undefined ? [] : [faults]),
  ]);
  const first = new Map<number, number>();
  const last = new Map<number, number>();
  for (const [position, { reads, writes }] of kernels.entries()) {
    for (const id of writes) if (!first.has(id)) first.set(id, position);
    for (const id of [...reads, ...writes]) last.set(id, position);
  }
  return [...first].flatMap(([id, start]) => {
    if (elsewhere.has(id)) return [];
    return [{ id, byteLength: wordsOf(values, id) * 4, first: start, last: last.get(id) ?? start }];
  });
}
