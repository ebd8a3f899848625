import {
  createGroup,
  createLoopbackTransports,
  limitCalls,
  peerClosedError,
} from '@shardwise/collectives';
import { CollectiveError, type ProcessGroup, type Transport } from '@shardwise/core/spec';
import { typed, valuesOf } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';

/** A world that loses those messages of rank 1 for which `isLost` returns true. */
function lossyWorld(
  size: number,
  isLost: (message: { readonly number: number; readonly byteLength: number }) => boolean,
): readonly ProcessGroup[] {
  return createLoopbackTransports(size).map((transport) => {
    let number = 0;
    const lossy: Transport = {
      specificationVersion: 1,
      rank: transport.rank,
      size,
      send: async (to, tag, bytes) => {
        const message = { number: number++, byteLength: bytes.byteLength };
        if (transport.rank !== 1 || !isLost(message)) await transport.send(to, tag, bytes);
      },
      recv: (from, tag, bytes) => transport.recv(from, tag, bytes),
      close: (reason) => transport.close(reason),
    };
    return createGroup(lossy, { timeoutMs: 300 });
  });
}

interface Part {
  readonly sums: readonly number[];
  readonly error: Error | undefined;
}

/** Each rank makes `calls` all-reduces, one after the other if `isAwaited`, otherwise all at once. */
async function sumUp(group: ProcessGroup, calls: number, isAwaited: boolean): Promise<Part> {
  const buffers = Array.from({ length: calls }, (_, call) =>
    typed('f32', [10 * call + group.rank]),
  );
  const sums: number[] = [];
  try {
    const pending: Promise<unknown>[] = [];
    for (const buffer of buffers) {
      const done = group
        .allReduce(buffer, 'sum')
        .then(() => sums.push(...valuesOf(buffer).map(Number)));
      if (isAwaited) await done;
      else pending.push(done);
    }
    await Promise.all(pending);
    return { sums, error: undefined };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { sums, error };
  }
}

describe('a transport that loses a message', () => {
  const expected = [1, 21, 41, 61, 81, 101];

  it.each([0, 1, 2, 3, 4, 5, 6, 7, 8])(
    'gives no wrong sum, and the error says so: message %i',
    async (lost) => {
      const world = lossyWorld(2, ({ number }) => number === lost);
      const parts = await Promise.all(world.map((group) => sumUp(group, 6, true)));
      for (const { sums, error } of parts) {
        expect(sums).toEqual(expected.slice(0, sums.length));
        expect(error).toBeInstanceOf(CollectiveError);
      }
    },
  );

  it('of data is an error of that very call, which says from whom nothing came', async () => {
    const world = lossyWorld(2, ({ byteLength, number }) => byteLength === 4 && number >= 2);
    const [first] = await Promise.all(world.map((group) => sumUp(group, 6, true)));
    expect(first?.sums).toEqual([1]);
    expect(first?.error).toMatchObject({
      code: 'COLLECTIVE_TIMEOUT',
      message: expect.stringMatching(
        /allReduce #1 on rank 0.*not the messages to rank 0 from rank 1\. If rank 1 went on.*look at the transport/,
      ),
    });
  });

  it('of a record is an error as soon as the next one comes, and blames nobody', async () => {
    const world = lossyWorld(2, ({ number }) => number === 0);
    const [first, second] = await Promise.all(world.map((group) => sumUp(group, 6, false)));
    expect(first?.error).toMatchObject({
      code: 'COLLECTIVE',
      message: expect.stringMatching(
        /allReduce #0 of rank 0 with rank 1: the record of call #1 of rank 1 came instead, so messages between them were lost\. Look at the transport/,
      ),
      fields: { lostBetween: [1, 0] },
    });
    expect(second?.error?.message).toMatch(/the group has ended .*messages between them were lost/);
    expect(second?.error?.message).not.toMatch(/first failure/);
  });

  it('gives no wrong sum where more calls are pending than have tags of their own', async () => {
    const world = lossyWorld(2, ({ number }) => number === 700);
    const parts = await Promise.all(world.map((group) => sumUp(group, 800, false)));
    for (const { sums, error } of parts) {
      expect(sums).toEqual(sums.map((_, call) => 20 * call + 1));
      expect(error).toBeInstanceOf(CollectiveError);
    }
    const sound = lossyWorld(2, () => false);
    const [all] = await Promise.all(sound.map((group) => sumUp(group, 800, false)));
    expect(all?.sums).toHaveLength(800);
  });
});

describe('a transport that rejects', () => {
  const failing = (error: Error): ProcessGroup =>
    createGroup({
      specificationVersion: 1,
      rank: 0,
      size: 2,
      send: async () => {},
      recv: async () => {
        throw error;
      },
      close: () => {},
    });

  it.each([
    ['CollectiveError', new CollectiveError({ asked: 'a', found: 'b', todo: 'c' }, { rank: 1 })],
    ['peerClosedError', peerClosedError(1, undefined)],
    ['peerClosedError with a reason', peerClosedError(1, new Error('no power'))],
  ])('with %s has that rank blamed, by this call and later ones', async (_, error) => {
    const group = failing(error);
    const blamed = /rank 1 of the world ended the group .*Look for the first failure on rank 1/;
    await expect(group.barrier()).rejects.toThrow(blamed);
    await expect(group.barrier()).rejects.toMatchObject({ fields: { abortedBy: 1 } });
    await expect(group.barrier()).rejects.toThrow(blamed);
  });
});

describe('calls that differ', () => {
  it('are told of all ranks, and later calls blame none of them', async () => {
    const world = createLoopbackTransports(4).map((transport) => createGroup(transport));
    const calls = world.map(async (group) => {
      const done = group.rank === 2 ? group.barrier() : group.allReduce(typed('f32', [1]), 'sum');
      await expect(done).rejects.toThrow(
        'Call #0 on ranks 0, 1, 3 is allReduce(sum, f32 [1]): on rank 2 it is barrier(). Make',
      );
      const next = await group.barrier().catch((error: unknown) => String(error));
      expect(next).toMatch(
        /the group has ended \(CollectiveMismatchError: Call #0 on ranks 0, 1, 3/,
      );
      expect(next).not.toMatch(/first failure/);
    });
    await Promise.all(calls);
  });

  it('are told where a rank has found the difference and left before it took all records', async () => {
    const [first, second] = createLoopbackTransports(2);
    const arrival = Promise.withResolvers<void>();
    let records = 0;
    // Rank 0 hears late of the first call. By then rank 1 has left, without its later record and those for it.
    const late: Transport = {
      specificationVersion: 1,
      rank: 0,
      size: 2,
      send: async (to, tag, bytes) => {
        await first?.send(to, tag, bytes);
        throw peerClosedError(1, undefined);
      },
      recv: async (from, tag, bytes) => {
        records += 1;
        if (records > 1) throw peerClosedError(1, undefined);
        await arrival.promise;
        return first?.recv(from, tag, bytes);
      },
      close: () => {},
    };
    const world = [late, second!].map((transport) => createGroup(transport));
    const calls = world.map((group) =>
      Promise.allSettled([
        group.broadcast(typed(group.rank === 0 ? 'f32' : 'i32', [1]), 1),
        group.barrier(),
      ]),
    );
    await calls[1];
    arrival.resolve();
    for (const [differing, next] of await Promise.all(calls)) {
      expect(differing).toMatchObject({ reason: { code: 'COLLECTIVE_MISMATCH' } });
      expect(next).toMatchObject({
        reason: { message: expect.stringMatching(/has ended \(CollectiveMismatchError/) },
      });
    }
  });
});

describe('the time limit of a group', () => {
  const missing = /after 50 ms rank 1 has not arrived/;

  it('is that of its calls, of its parts, and of messages, unless they say another', async () => {
    const world = createLoopbackTransports(2).map((transport) =>
      createGroup(transport, { timeoutMs: 50 }),
    );
    const parts = await Promise.all(world.map((group) => group.split(0, group.rank)));
    await expect(parts[0]?.barrier()).rejects.toThrow(missing);

    const [alone] = createLoopbackTransports(2).map((transport) =>
      createGroup(transport, { timeoutMs: 50 }),
    );
    await expect(alone?.recv(typed('f32', [0]), 1)).rejects.toThrow(/after 50 ms rank 1/);

    const [patient] = createLoopbackTransports(2).map((transport) =>
      createGroup(transport, { timeoutMs: 1e9 }),
    );
    await expect(patient?.barrier({ timeoutMs: 50 })).rejects.toThrow(missing);
  });

  it('may be set later, and must be a positive number', async () => {
    const [group] = createLoopbackTransports(2).map((transport) => createGroup(transport));
    if (group === undefined) throw new RangeError();
    limitCalls(group, 50);
    await expect(group.barrier()).rejects.toThrow(missing);
    expect(() => limitCalls(group, 0)).toThrow('timeoutMs 0 for the calls of a group');
    const [transport] = createLoopbackTransports(1);
    expect(() => createGroup(transport!, { timeoutMs: -1 })).toThrow(
      'createGroup with timeoutMs: -1',
    );
  });
});
