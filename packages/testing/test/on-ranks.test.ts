import {
  allReduce,
  fromData,
  manualSeed,
  nn,
  ones,
  rand,
  setRank,
  statistics,
  type Tensor,
} from '@shardwise/core';
import { currentSession, rankState } from '@shardwise/core/extend';
import { interpreter, RankFailure } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

const scalar = (value: number): Tensor => fromData(Float32Array.of(value), [1], 'f32');
const failureOf = async (work: Promise<unknown>): Promise<unknown> =>
  work.catch((error: unknown) => error);

describe('onRanks', () => {
  it('returns what every rank returned, in rank order', async () => {
    const results = await onRanks(3, async ({ rank, size }) => {
      // The last rank ends first.
      for (let turn = rank; turn < size; turn++) await Promise.resolve();
      return { rank, size };
    });
    expect(results).toEqual([
      { rank: 0, size: 3 },
      { rank: 1, size: 3 },
      { rank: 2, size: 3 },
    ]);
  });

  it('connects the ranks, through tensors and through their group', async () => {
    const results = await onRanks(4, async ({ rank, group }) => {
      const bytes = new Uint8Array(Int32Array.of(rank).buffer);
      await group.allReduce({ dtype: 'i32', bytes }, 'sum');
      const sum = allReduce(scalar(rank), 'dp');
      return [await sum.item(), new Int32Array(bytes.buffer)[0]];
    });
    expect(results).toEqual([0, 1, 2, 3].map(() => [6, 6]));
  });

  it('gives the mesh the axes that it is asked for', async () => {
    const places = await onRanks(
      4,
      ({ mesh }) => ['dp', 'tp'].map((axis) => mesh.coordinate(axis)),
      {
        axes: [
          { name: 'dp', size: 2 },
          { name: 'tp', size: 2 },
        ],
      },
    );
    expect(places).toEqual([
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ]);
  });

  it('gives each rank counters, random numbers and gradients of its own', async () => {
    const program = async (seed: number): Promise<unknown> => {
      manualSeed(seed);
      const layer = new nn.Linear(3, 2);
      const before = statistics().plansRun;
      layer
        .forward(rand([4, 3]))
        .sum()
        .backward();
      await layer.weight.realize();
      const gradient = await layer.weight.grad?.data();
      return { gradient: [...(gradient ?? [])], plans: statistics().plansRun - before };
    };
    const together = await onRanks(3, ({ rank }) => program(rank));
    const alone: unknown[] = [];
    for (const seed of [0, 1, 2]) alone.push(...(await onRanks(1, () => program(seed))));
    expect(together).toEqual(alone);
  });

  it('computes on the devices that it is given', async () => {
    const devices = [interpreter(), interpreter()];
    const names = await onRanks(
      2,
      async ({ rank, device }) => {
        await ones([2]).realize();
        return device === devices[rank] && currentSession().backend === device;
      },
      { createDevice: (rank) => devices[rank] ?? interpreter() },
    );
    expect(names).toEqual([true, true]);
  });

  it('leaves the rank of the thread as it was, also while ranks run', async () => {
    setRank({ device: interpreter() });
    const before = rankState;
    const { session } = rankState;
    const running = onRanks(2, async ({ group }) => group.barrier());
    expect(rankState.session).toBe(session);
    const value = scalar(3).mul(2);
    await running;
    expect(rankState).toBe(before);
    expect(await value.item()).toBe(6);
  });

  it('can run inside the rank of another call', async () => {
    const results = await onRanks(2, async ({ rank, group }) => {
      const inner = await onRanks(2, async (other) => {
        await other.group.barrier();
        return await scalar(10 * rank + other.rank).item();
      });
      await group.barrier();
      return inner;
    });
    expect(results).toEqual([
      [0, 1],
      [10, 11],
    ]);
  });

  it('rejects with the error of the first rank that throws, and ends the others', async () => {
    const others: unknown[] = [];
    const failure = await failureOf(
      onRanks(3, async ({ rank, group }) => {
        if (rank === 1) throw new RangeError('out of tea');
        others.push(await failureOf(group.barrier()));
      }),
    );
    if (!(failure instanceof RankFailure)) throw new Error('expected a RankFailure');
    expect(failure.rank).toBe(1);
    expect(failure.message).toBe('rank 1: RangeError: out of tea');
    expect(failure.cause).toBeInstanceOf(RangeError);
    expect(failure.stack).toContain('on-ranks.test.ts');
    expect(others).toHaveLength(2);
    for (const other of others)
      expect(other).toMatchObject({ code: 'COLLECTIVE_ABORTED', fields: { abortedBy: 1 } });
  });

  it('fails a rank that waits for one that has ended', async () => {
    await expect(
      onRanks(2, async ({ rank, group }) => {
        if (rank === 0) await group.barrier();
      }),
    ).rejects.toThrow(/rank 0: .*barrier.*rank 1/s);
  });

  it('carries out collectives that nothing has read, and fails by them', async () => {
    const made = (sizeOf: (rank: number) => number) =>
      onRanks(2, ({ rank }) => void allReduce(ones([sizeOf(rank)]), 'dp'));
    await expect(made(() => 3)).resolves.toHaveLength(2);
    await expect(made((rank) => 3 + rank)).rejects.toThrow('CollectiveMismatchError');
  });

  it('ends ranks that wait for each other, and says which they are', async () => {
    await expect(
      onRanks(
        3,
        async ({ rank, group }) => {
          const from = (rank + 1) % 2;
          if (rank < 2) await group.recv({ dtype: 'u8', bytes: new Uint8Array(1) }, from);
        },
        { idleTimeoutMs: 100 },
      ),
    ).rejects.toThrow('ranks 0, 1 of 3 wait for each other: nothing has happened for 100 ms');
  });

  it('lets the body of a rank see an error of a collective, and go on', async () => {
    const seen = await onRanks(2, async ({ rank }) => {
      const sum = allReduce(ones([3 + rank]), 'dp');
      return String(await failureOf(sum.data()));
    });
    for (const error of seen) expect(error).toContain('CollectiveMismatchError');
  });

  it('refuses options that do not exist, and less than one rank', async () => {
    await expect(onRanks(0, () => {})).rejects.toThrow('onRanks with size: 0');
    await expect(onRanks(1, () => {}, JSON.parse('{ "device": 1 }'))).rejects.toThrow(
      'onRanks with the option device',
    );
  });
});
