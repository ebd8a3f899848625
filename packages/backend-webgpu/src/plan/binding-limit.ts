import { BackendError } from '@shardwise/core/spec';
import { describeTask, fieldsOf } from '../device/task.ts';
import { bufferCount } from './buffer-count.ts';
import type { Kernel } from '../emit/kernel.ts';
import { slotsOf } from '../emit/kernel-text.ts';
import { bindingsOf } from './slice-kernel.ts';
import { taskOf } from './task-of.ts';
import { type KernelPlan, guardOf } from './kernel-plan.ts';
import { wordsOf } from '../program/values.ts';

/** The most bindings that a kernel takes. */
export function buffersOf(plan: KernelPlan, kernel: Kernel): number {
  const { gathered, inPlace, values, bindingBytes } = plan;
  const alike = (id: number): number => inPlace.get(id) ?? (gathered.has(id) ? -1 : id);
  const bindings = (id: number): number => bindingsOf(values, kernel, id, bindingBytes);
  return bufferCount(alike, bindings)(slotsOf(kernel, guardOf(plan, kernel)));
}

/** The error for a kernel that takes more buffers than the device has. */
export function tooManyBindings(
  plan: KernelPlan,
  kernel: Kernel,
  mostBuffers: number,
): BackendError {
  const { values, bindingBytes } = plan;
  const bytes = (id: number): number => 4 * wordsOf(values, id);
  const largest = slotsOf(kernel, undefined).reduce((a, b) => (bytes(b) > bytes(a) ? b : a));
  const task = taskOf(values, kernel);
  const bindings = buffersOf(plan, kernel);
  return new BackendError(
    {
      asked: `the device to compute ${describeTask(task)}`,
      found: `it takes ${bindings} bindings of ${bindingBytes} bytes, since [${values.shape(largest).join(', ')}] has ${bytes(largest)} bytes; a kernel of this device has ${mostBuffers}`,
      todo: 'Use a smaller batch, divide the model over more ranks, or take a device with larger bindings',
    },
    {
      ...fieldsOf(task),
      instruction: values.origin(kernel.writes[0] ?? 0),
      largestBytes: bytes(largest),
      bindings,
      bindingBytes,
      mostBuffers,
    },
  );
}
