import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { z } from 'zod';
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
