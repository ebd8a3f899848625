import { hashOffset, mixed } from './hash-of.ts';
import { forEachTensor } from './map-tensors.ts';

/** What tells batches apart: the shapes of their tensors, and their data where they lie on the host, 0 where they do not. */
export function batchMark(inputs: readonly unknown[]): { shapes: number; data: number } {
  let [shapes, data, isOnHost] = [hashOffset, hashOffset, true];
  forEachTensor(inputs, ({ shape, node: { value } }) => {
    for (const size of [shape.length, ...shape]) shapes = mixed(shapes, size);
    if (value?.kind === 'host') for (const byte of value.bytes) data = mixed(data, byte);
    else isOnHost = false;
  });
  return { shapes, data: isOnHost ? data : 0 };
}

/** Whether marks are those of one batch, as far as is known. */
export function isSameData(data: number | undefined, other: number | undefined): boolean {
  return data === other || data === 0 || other === 0;
}
