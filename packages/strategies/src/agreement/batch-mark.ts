import { hashOffset, mixed } from '@shardwise/core/extend';
import { forEachTensor } from '../modules/map-tensors.ts';

/**
 * Returns numbers that differ between different batches: a hash of the tensors' shapes, and a hash of their data, or 0
 * if not all data is on the host.
 */
export function batchMark(inputs: readonly unknown[]): { shapes: number; data: number } {
  let [shapes, data, isOnHost] = [hashOffset, hashOffset, true];
  forEachTensor(inputs, ({ shape, node: { value } }) => {
    for (const size of [shape.length, ...shape]) shapes = mixed(shapes, size);
    if (value?.kind === 'host') for (const byte of value.bytes) data = mixed(data, byte);
    else isOnHost = false;
  });
  return { shapes, data: isOnHost ? data : 0 };
}

/** Returns whether two marks may be those of the same batch. Data that is not known may be the same. */
export function isSameData(data: number | undefined, other: number | undefined): boolean {
  return data === other || data === 0 || other === 0;
}
