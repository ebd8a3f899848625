import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { createLoopbackTransports } from '../src/transports/loopback.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: unknown = runInNewContext('gc');

const message = fc.record({
  from: fc.integer({ min: 0, max: 2 }),
  hop: fc.integer({ min: 1, max: 2 }),
  tag: fc.integer({ min: 0, max: 6 }),
});

it('counts the longest chain of messages, each of which waited for those with its tag or a lower one', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 40 }), async (messages) => {
      const transports = createLoopbackTransports(3);
      /** The chains that each rank has received. */
      const received: { readonly tag: number; readonly length: number }[][] = [[], [], []];
      const rounds = [0, 0, 0];
      const bytes = new Uint8Array(1);
      for (const { from, hop, tag } of messages) {
        const to = (from + hop) % 3;
        const before = received[from]?.filter((chain) => chain.tag <= tag) ?? [];
        const length = Math.max(0, ...before.map((chain) => chain.length)) + 1;
        rounds[from] = Math.max(rounds[from] ?? 0, length);
        received[to]?.push({ tag, length });
        await transports[from]?.send(to, tag, bytes);
        await transports[to]?.recv(from, tag, bytes);
      }
      expect(transports.map(({ traffic }) => traffic.rounds)).toEqual(rounds);
    }),
  );
});

it('keeps nothing of a message that has been received, whether it or its receiver came first', async () => {
  const [sender, receiver] = createLoopbackTransports(2);
  const bytes = new Uint8Array(1);
  const exchange = async (count: number, base: number): Promise<number> => {
    for (let tag = base; tag < base + count; tag++) {
      const received = tag % 2 === 0 ? receiver?.recv(0, tag, bytes) : undefined;
      await sender?.send(1, tag, bytes);
      await (received ?? receiver?.recv(0, tag, bytes));
    }
    if (typeof collectGarbage !== 'function') throw new TypeError('no gc to call');
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const before = await exchange(1_000, 0);
  const after = await exchange(20_000, 1_000);
  // A mailbox takes some 170 bytes.
  expect(after - before).toBeLessThan(1_000_000);
});
