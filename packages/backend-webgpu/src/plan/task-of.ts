import type { Task } from '../device/task.ts';
import type { Kernel } from '../emit/kernel.ts';
import { type Values, wordsOf } from '../program/values.ts';

/** The description of a kernel for messages. `others` is the number of kernels that are submitted with it. */
export function taskOf(values: Values, { label, reads, writes }: Kernel, others = 0): Task {
  const byteLength = [...reads, ...writes].reduce((sum, id) => sum + 4 * wordsOf(values, id), 0);
  return { kernel: label, shape: values.shape(writes[0] ?? 0), byteLength, others };
}
