import { OutOfMemoryError } from '@shardwise/core/spec';
import { describeTask, fieldsOf } from '../device/task.ts';
import type { Kernel } from './kernel.ts';
import { taskOf } from './task-of.ts';
import type { Values } from './values.ts';
import { wordsOf } from './words.ts';

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
