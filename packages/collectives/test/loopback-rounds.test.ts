import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { createLoopbackTransports } from '../src/transports/loopback.ts';

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
