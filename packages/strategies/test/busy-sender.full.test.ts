import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, singleGroup } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { constantLike, currentSession, inputNode, noGrad } from '@shardwise/core/extend';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { sendValue } from '../src/pipeline/messages/message-bytes.ts';
import { receivedMeanwhile } from './ranks/busy-sender.ts';

it.each([null, 'bf16'] as const)(
  'what a stage sends is there while the sender computes and answers nobody, sent as %s',
  async (sentAs) => {
    const world = createThreadsWorld({ size: 2, arenaBytes: 8 * 1024 * 1024 });
    const url = new URL('./ranks/busy-sender.ts', import.meta.url);
    const data = { sentAs, arrived: new SharedArrayBuffer(4) };
    const found = await spawnRanks(2, url, { world, data, timeoutMs: 30_000 });
    expect(z.array(receivedMeanwhile).parse(found)).toEqual([[], [1.5]]);
  },
);

it('a message for which the device has no room left is sent from elsewhere', async () => {
  const byteLength = 1024 * 1024;
  const device = await cpu({ byteLength });
  setRank({ device });
  const node = noGrad(() => constantLike(inputNode([1000], 'f32', null), 1.5));
  await currentSession().realize([node]);
  device.alloc(byteLength - device.usage().bytesInUse);
  const sent: Uint8Array[] = [];
  const group = singleGroup();
  group.send = async ({ bytes }) => void sent.push(bytes.slice());
  await sendValue({ node, peer: 1, tag: 0, sentAs: 'f16' }, group);
  expect(sent.map(({ buffer }) => [...new Set(new Float16Array(buffer))])).toEqual([[1.5]]);
});
