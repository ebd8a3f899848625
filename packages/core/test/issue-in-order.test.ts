import { interpreter } from '@shardwise/testing';
import { expect, test } from 'vitest';
import { currentSession, setRank } from '../src/rank.ts';
import { fromData } from '../src/tensor/create.ts';

/** Keeps the thread busy for longer than calls may follow each other without a turn of the event loop. */
function computeForLong(): void {
  const end = performance.now() + 15;
  while (performance.now() < end);
}

test('a call that is rejected while the session gives others a turn is told its caller alone', async () => {
  setRank({ device: interpreter() });
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  try {
    const read = fromData(Float32Array.of(1, 2), [2], 'f32').mul(2).data();
    const call = currentSession().issueInOrder(async () => {
      computeForLong();
      throw new Error('the group has ended');
    });
    await expect(call).rejects.toThrow('the group has ended');
    await read;
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off('unhandledRejection', note);
  }
  expect(unhandled).toEqual([]);
});
