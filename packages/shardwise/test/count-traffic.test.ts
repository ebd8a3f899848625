import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { expect, it } from 'vitest';
import { countTraffic } from '../src/rank/join/count-traffic.ts';

it('counts the bytes of messages that a group sends and receives, and changes none of them', async () => {
  const ranks = createLoopbackTransports(2).map((transport) => {
    const traffic = { sentBytes: 0, receivedBytes: 0 };
    const group = createGroup(countTraffic(transport, traffic), { verify: false });
    return { traffic, group };
  });
  const data = ranks.map((_, rank) => Float32Array.of(rank + 1, 0, 0));
  await Promise.all(
    ranks.map(({ group }, rank) =>
      group.allReduce(
        { bytes: new Uint8Array(data[rank]?.buffer ?? new ArrayBuffer(0)), dtype: 'f32' },
        'sum',
      ),
    ),
  );
  expect(data.map(([first]) => first)).toEqual([3, 3]);
  // Two ranks exchange their arrays of 12 bytes.
  for (const { traffic } of ranks) expect(traffic).toEqual({ sentBytes: 12, receivedBytes: 12 });
  for (const { group } of ranks) group.close();
});
