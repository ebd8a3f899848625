import { CollectiveMismatchError } from '@shardwise/core';
import type { CallIdentity, ProcessGroup } from '@shardwise/core/spec';
import { describe, expect, test } from 'vitest';
import {
  createGroup,
  createLoopbackTransports,
  createThreadsWorld,
  joinThreadsWorld,
} from '../src/index.ts';

const named = (hash: number): CallIdentity => ({ hash, describe: () => `call ${hash}` });

const groups: Readonly<Record<string, () => readonly ProcessGroup[]>> = {
  'of a transport': () => createLoopbackTransports(2).map((transport) => createGroup(transport)),
  'of a shared memory': () => {
    const world = createThreadsWorld({ size: 2 });
    return [0, 1].map((rank) => joinThreadsWorld(world, rank));
  },
};

describe.each(Object.entries(groups))('a message %s', (_, make) => {
  const pass = async (sent: CallIdentity | undefined, expected: CallIdentity | undefined) => {
    const [from, to] = make();
    if (from === undefined || to === undefined) throw new RangeError('two groups');
    const bytes = new Uint8Array(8);
    const options = (identity: CallIdentity | undefined) =>
      identity === undefined ? {} : { identity };
    const [, received] = await Promise.allSettled([
      from.send({ bytes: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8), dtype: 'f32' }, 1, options(sent)),
      to.recv({ bytes, dtype: 'f32' }, 0, options(expected)),
    ]);
    from.close();
    to.close();
    return { bytes: [...bytes], received };
  };

  test.each([[undefined], [named(7)]])(
    'arrives if both ends give it one identity',
    async (name) => {
      const { bytes, received } = await pass(name, name);
      expect(received.status).toBe('fulfilled');
      expect(bytes).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    },
  );

  test('is an error of the receiver if it expects another one, and gives it no bytes', async () => {
    const { bytes, received } = await pass(named(7), named(8));
    const reason: unknown = received.status === 'rejected' ? received.reason : null;
    expect(reason).toBeInstanceOf(CollectiveMismatchError);
    expect(String(reason)).toMatch(/call 8.*another call/);
    expect(bytes).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
  });
});
