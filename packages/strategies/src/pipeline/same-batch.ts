import { CollectiveMismatchError, type ProcessGroup } from '@shardwise/core/extend';
import { forEachTensor } from '../map-tensors.ts';

/** What tells batches apart: their shapes, and their data where they lie on the host; 0 where they do not. */
export function batchMark(inputs: readonly unknown[]): Int32Array<ArrayBuffer> {
  let [shapes, data, isOnHost] = [offset, offset, true];
  forEachTensor(inputs, ({ shape, node: { value } }) => {
    for (const size of [shape.length, ...shape]) shapes = mixed(shapes, size);
    if (value?.kind === 'host') for (const byte of value.bytes) data = mixed(data, byte);
    else isOnHost = false;
  });
  return Int32Array.of(shapes, isOnHost ? data : 0);
}

/** FNV-1a (Fowler, Noll, Vo 1991), in 32 bits. */
const offset = 0x811c9dc5 | 0;

function mixed(hash: number, value: number): number {
  return Math.imul(hash ^ value, 0x01000193);
}

/** A collective. Throws CollectiveMismatchError on all ranks where they were given different batches. */
export async function requireSameBatch(
  mark: Int32Array<ArrayBuffer>,
  group: ProcessGroup,
): Promise<void> {
  if (group.size === 1) return;
  const all = new Int32Array(mark.length * group.size);
  await group.allGather(
    { bytes: new Uint8Array(mark.buffer), dtype: 'i32' },
    { bytes: new Uint8Array(all.buffer), dtype: 'i32' },
  );
  const [shapes, data] = all;
  for (let rank = 1; rank < group.size; rank++) {
    const [ownShapes, ownData] = all.subarray(2 * rank);
    const isOther = ownShapes !== shapes ? 'shape' : 'data';
    const bothKnown = data !== 0 && ownData !== 0;
    if (ownShapes === shapes && (!bothKnown || ownData === data)) continue;
    throw new CollectiveMismatchError(
      {
        asked: 'to pass a batch through the stages of a pipeline',
        found: `rank ${rank} was given a batch of other ${isOther} than rank 0`,
        todo: 'Give all ranks of the pipeline the same batch: share a dataset out over the ranks of dp alone',
      },
      { rank },
    );
  }
}
