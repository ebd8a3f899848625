import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { connectRequests, startRequestServer } from '@shardwise/collectives/node';
import { expect, it } from 'vitest';
import { countRequests, countTraffic } from '../src/rank/join/count-traffic.ts';

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

it('counts the bytes of requests and of their answers', async () => {
  const secret = 'a secret of this test';
  const server = await startRequestServer({
    host: '127.0.0.1',
    port: 0,
    secret,
    handler: async ([first = new Uint8Array(0)]) => [first, first],
  });
  const traffic = { sentBytes: 0, receivedBytes: 0 };
  const address = { host: '127.0.0.1', port: server.port, secret };
  const connection = countRequests(await connectRequests(address), traffic);
  const parts = [new Uint8Array(100), new Uint8Array(7)];
  expect(await connection.request(parts, (answer) => answer.length)).toBe(2);
  expect(traffic).toEqual({ sentBytes: 107, receivedBytes: 200 });
  connection.close();
  server.close();
});
