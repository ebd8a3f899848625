import { OutOfMemoryError } from '@shardwise/core/spec';
import { describeTask, fieldsOf } from '../device/task.ts';
import type { Kernel } from '../emit/kernel.ts';
import { taskOf } from '../plan/task-of.ts';
import { type Values, wordsOf } from '../program/values.ts';

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
