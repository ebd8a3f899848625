import { cpu } from '@shardwise/backend-cpu';
import { singleGroup } from '@shardwise/collectives';
import { setRank, statistics } from '@shardwise/core';
import { inputNode } from '@shardwise/core/extend';
import { expect, it, onTestFinished, vi } from 'vitest';
import { FirstFault } from '../src/pipeline/passes/first-fault.ts';
import { runWork } from '../src/pipeline/passes/run-work.ts';

it('the time that a stage waits for the values of another one counts as communication', async () => {
  setRank({ device: await cpu() });
  let now = 1000;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  onTestFinished(() => void vi.restoreAllMocks());
  const group = singleGroup();
  // The message arrives 250 ms after it was asked for.
  vi.spyOn(group, 'recv').mockImplementation(async () => {
    await Promise.resolve();
    now += 250;
  });
  const node = inputNode([2], 'f32', { kind: 'host', bytes: new Uint8Array(8) });
  const receives = [{ node, peer: 0, tag: 1 }];
  const item = { name: '1F0', receives, computes: [], sends: [], frees: [], made: null };
  const before = statistics().communicationMs;
  await runWork([item], group, async () => {}, new FirstFault(), null);
  expect(statistics().communicationMs - before).toBe(250);
});
