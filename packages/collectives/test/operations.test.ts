import {
  allReduceCoalesced,
  allGatherCoalesced,
  createGroup,
  createLoopbackTransports,
  createThreadsWorld,
  joinThreadsWorld,
  newGroup,
  newGroups,
  reduceScatterCoalesced,
} from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/spec';
import { typed, valuesOf, zeros } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';

function world(size: number): readonly ProcessGroup[] {
  return createLoopbackTransports(size).map((transport) => createGroup(transport));
}

describe('coalesced calls', () => {
  it('of many short buffers are one call for each dtype, and one for each long buffer', async () => {
    const threads = createThreadsWorld({ size: 1, arenaBytes: 1 << 20 });
    const group = joinThreadsWorld(threads, 0);
    const buffers = [
      ...Array.from({ length: 20 }, () => zeros('f32', 100)),
      ...Array.from({ length: 20 }, () => zeros('bf16', 100)),
      zeros('f32', 20_000),
      zeros('f32', 20_000),
    ];
    await allReduceCoalesced(group, buffers, 'sum');
    expect(group.counters.of('allReduce')).toEqual({ calls: 4, bytes: 8000 + 4000 + 160_000 });
    group.close();
  });

  it("reduce-scatter as DeepSpeed's: the mean of full(6, R) on two ranks is 0.5", async () => {
    const results = await Promise.all(
      world(2).map(async (group) => {
        const output = zeros('f32', 3);
        const input = typed(
          'f32',
          Array.from({ length: 6 }, () => group.rank),
        );
        await reduceScatterCoalesced(group, [input], [output], 'avg');
        return valuesOf(output);
      }),
    );
    expect(results).toEqual([
      [0.5, 0.5, 0.5],
      [0.5, 0.5, 0.5],
    ]);
  });

  it("reduce-scatter as DeepSpeed's: [0 .. 5] R and [6 .. 8] R, uneven parts", async () => {
    const results = await Promise.all(
      world(2).map(async (group) => {
        const inputs = [[0, 1, 2, 3, 4, 5], [6, 7, 8], [1]].map((values) =>
          typed(
            'f32',
            values.map((value) => value * group.rank),
          ),
        );
        const outputs = (group.rank === 0 ? [3, 2, 1] : [3, 1, 0]).map((n) => zeros('f32', n));
        await reduceScatterCoalesced(group, inputs, outputs, 'avg');
        return outputs.map(valuesOf);
      }),
    );
    expect(results).toEqual([
      [[0, 0.5, 1], [3, 3.5], [0.5]],
      [[1.5, 2, 2.5], [4], []],
    ]);
  });

  it('refuse outputs that do not fit, naming them', async () => {
    const [group] = world(1);
    const one = zeros('f32', 1);
    await expect(allGatherCoalesced(group!, [one], [])).rejects.toThrow('there are 0 outputs');
    await expect(allGatherCoalesced(group!, [one], [zeros('f32', 2)])).rejects.toMatchObject({
      code: 'SHAPE',
    });
    await expect(
      reduceScatterCoalesced(group!, [one, one], [one, zeros('f32', 2)], 'sum'),
    ).rejects.toThrow('Make output 1 as long as that');
    await expect(
      allReduceCoalesced(group!, [one, { bytes: new Uint8Array(5), dtype: 'f32' }], 'sum'),
    ).rejects.toThrow('buffer 1');
  });
});

describe('new groups', () => {
  it.each<[string, readonly (readonly number[])[]]>([
    ['rank 1 twice', [[0, 1, 1]]],
    ['rank 1 twice', [[0, 1], [1]]],
    ['rank 4, where there are 0 to 3', [[0, 4]]],
    ['rank -1, where there are 0 to 3', [[-1]]],
    ['rank 0.5, where there are 0 to 3', [[0.5]]],
    ['a group of no ranks', [[0], []]],
  ])('refuse %s', async (found, lists) => {
    const [group] = world(4);
    await expect(newGroups(group!, lists)).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining(found),
    });
  });

  it('that ranks see differently are a mismatch on all that are in one', async () => {
    const outcomes = await Promise.allSettled(
      world(3).map((group) => newGroup(group, group.rank === 2 ? [1, 2] : [0, 2, 1])),
    );
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: { code: 'COLLECTIVE_MISMATCH' },
      });
    }
  });
});
