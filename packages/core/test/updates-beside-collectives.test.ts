import { allGather, broadcast, nn, noGrad, ones, type Tensor } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

/** Updates a buffer in place. */
const updates: Readonly<Record<string, (buffer: nn.BufferTensor) => void>> = {
  'that is computed': (buffer) => void noGrad(() => buffer.assign(buffer.mul(100))),
  'that arrives from another rank': (buffer) =>
    void noGrad(() => buffer.assign(broadcast(ones([1]).mul(100), 'dp', 1))),
};

describe.each([true, false])('on devices whose memory the host sees: %s', (mappable) => {
  it.each(Object.entries(updates))(
    'a collective that a rank does not read sends what the rank had before an update %s',
    async (_, update) => {
      const wholes = await onRanks(
        2,
        async ({ rank }) => {
          const buffer = new nn.BufferTensor(Float32Array.of(rank + 1), [1]);
          await buffer.realize();
          const whole: Tensor = allGather(buffer, 'dp', 0);
          // Rank 1 makes the update in the run that issues the gather. Rank 0 waits for the values of the gather.
          const values = rank === 0 ? Array.from(await whole.data(), Number) : [];
          update(buffer);
          await buffer.realize();
          return values;
        },
        { createDevice: () => interpreter({ mappable }) },
      );
      expect(wholes[0]).toEqual([1, 2]);
    },
  );
});
