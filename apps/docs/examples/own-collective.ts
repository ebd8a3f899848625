import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/spec';

/** Adds up the values of all ranks up to this one: rank 2 gets the sum of ranks 0, 1 and 2. */
async function scan(group: ProcessGroup, values: Float32Array<ArrayBuffer>): Promise<void> {
  const { rank, size } = group;
  const view = (array: Float32Array<ArrayBuffer>) =>
    ({ bytes: new Uint8Array(array.buffer), dtype: 'f32' }) as const;
  if (rank > 0) {
    const before = new Float32Array(values.length);
    await group.recv(view(before), rank - 1);
    values.forEach((value, index) => (values[index] = value + (before[index] ?? 0)));
  }
  if (rank < size - 1) await group.send(view(values), rank + 1);
}

await Promise.all(
  createLoopbackTransports(4).map(async (transport) => {
    const group = createGroup(transport);
    const values = Float32Array.of(1, group.rank);
    await scan(group, values);
    if (group.rank === 3) console.log([...values]); // prints [ 4, 6 ]
  }),
);
