import {
  fromData,
  LayoutError,
  type ProcessGroup,
  ShardwiseError,
  type Tensor,
  ones,
} from '@shardwise/core';
import type { Layout } from '@shardwise/core/extend';
import { countCollectives, distributeTensor, fromLocal, layoutOf } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import { axesOf, randomTensor } from './ranks/distributed-tensor-values.ts';

/** Runs `body` as each rank of a 2 x 2 mesh. */
async function onMesh(body: (rank: RankInThread) => Promise<void>): Promise<void> {
  await onRanks(4, body, { axes: axesOf(4) });
}

/** Shape: -> [5, 2]. */
const rows = (): Tensor => {
  const values = Float32Array.from({ length: 10 }, (_, index) => index);
  return fromData(values, [5, 2], 'f32');
};
const overBoth = layoutOf([['a', 'b'], null]);
const byRows = layoutOf(['a', null]);

async function messageOf(value: Tensor): Promise<string> {
  try {
    return String(await value.data());
  } catch (error) {
    if (!ShardwiseError.isInstance(error)) throw error;
    return `${error.code}: ${error.message}`;
  }
}

/** Counts the gathers of groups while `body` runs. */
async function gathersOf(
  groups: readonly ProcessGroup[],
  body: () => Promise<unknown>,
): Promise<number> {
  let sent = 0;
  for (const group of groups) {
    const allGather = group.allGather.bind(group);
    group.allGather = (...call) => {
      sent++;
      return allGather(...call);
    };
  }
  await body();
  return sent;
}

describe('a distributed tensor on a 2 x 2 mesh', () => {
  it('has chunks of chunks of a dim over two axes, 5 rows as 2, 1 and 1, 1, and is whole again on every rank', () =>
    onMesh(async ({ rank }) => {
      const distributed = distributeTensor(rows(), overBoth);
      const part = distributed.toLocal();
      expect(part.shape).toEqual([rank === 0 ? 2 : 1, 2]);
      expect(await valuesOf(part)).toEqual(
        [
          [0, 1, 2, 3],
          [4, 5],
          [6, 7],
          [8, 9],
        ][rank],
      );
      expect(await valuesOf(distributed.fullTensor())).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }));

  it('is made of parts in the order of the axes that are named', () =>
    onMesh(async ({ rank }) => {
      const parts = fromLocal(fromData(Float32Array.of(rank), [1], 'f32'), layoutOf([['b', 'a']]));
      expect(await valuesOf(parts.fullTensor())).toEqual([0, 2, 1, 3]);
    }));

  it('refuses a part that is not the one of the layout, with the numbers', () =>
    onMesh(async ({ rank }) => {
      const part = distributeTensor(rows(), overBoth).toLocal();
      const make = (): unknown => fromLocal(part, overBoth, [9, 2]);
      if (rank > 0) return;
      expect(make).toThrow(LayoutError);
      expect(make).toThrow(
        'a part of shape [2, 2] as shard(0: a·b) of a tensor of shape [9, 2]: a part of shape [3, 2] on this rank',
      );
    }));

  it.each<[string, first: string, other: string, own: (isThird: boolean) => [Tensor, Layout]]>([
    ['rows', 'f32 [2, 3]', 'a part f32 [1, 3]', (isThird) => [ones([isThird ? 1 : 2, 3]), byRows]],
    [
      'columns',
      'f32 [2, 3]',
      'a part f32 [2, 4]',
      (isThird) => [ones([2, isThird ? 4 : 3]), byRows],
    ],
    [
      'dtypes',
      'f32 [2, 3]',
      'a part i32 [2, 3]',
      (isThird) => [ones([2, 3], isThird ? 'i32' : 'f32'), byRows],
    ],
    [
      'layouts',
      'f32 [2, 3]',
      'another layout, and a part f32 [2, 3]',
      (isThird) => [ones([2, 3]), isThird ? layoutOf([null, 'a']) : byRows],
    ],
    [
      'copies',
      'f32 [2, 3]',
      'a part f32 [1, 3]',
      (isThird) => [ones([isThird ? 1 : 2, 3]), layoutOf([null, null])],
    ],
  ])(
    'is refused on every rank, in each read, if parts without the shape of the whole differ in %s, with ranks and shapes',
    async (_, first, other, own) => {
      await onMesh(async ({ rank }) => {
        const [part, layout] = own(rank === 2);
        for (const value of [
          fromLocal(part, layout).sum().fullTensor(),
          fromLocal(part, layout).mul(2).toLocal(),
        ]) {
          const text = await messageOf(value);
          expect(text).toMatch(
            /^COLLECTIVE_MISMATCH: fromLocal at .*distributed-tensor\.test\.ts:/,
          );
          expect(text).toContain(
            `: rank 0 of 'a', 0 of 'b' has a part ${first}, and rank 1 of 'a', 0 of 'b' has ${other}. `,
          );
          expect(await messageOf(value)).toBe(text);
        }
      });
    },
  );

  it('computes with equal parts without the shape of the whole, also gradients', () =>
    onMesh(async ({ rank }) => {
      const part = fromData(Float32Array.of(rank < 2 ? 1 : 3), [1, 1], 'f32').requiresGrad_();
      const mean = fromLocal(part, byRows).mean().fullTensor();
      mean.square().backward();
      expect(await mean.item()).toBe(2);
      // The derivative of mean² is 2 · 2 · 1/2 for each of two elements.
      expect(await valuesOf(part.grad ?? expect.fail())).toEqual([2]);
      const flags = fromLocal(ones([2, 3], 'bool'), byRows);
      expect(flags.mul(1).dtype).toBe('i32');
      expect(flags.redistribute(byRows).dtype).toBe('bool');
    }));

  it.each([
    ['one message over each axis', undefined, 2],
    ['none if the shape is given', [2, 1], 0],
  ])('compares parts by %s', async (_, shape, messages) => {
    await onMesh(async ({ mesh }) => {
      const groups = mesh.axes.map(({ name }) => mesh.group(name));
      const read = (): Promise<unknown> =>
        fromLocal(ones([1, 1]), byRows, shape)
          .mul(2)
          .toLocal()
          .data();
      expect(await gathersOf(groups, read)).toBe(messages);
    });
  });

  it('runs a column and a row parallel product with one all-reduce forward, and one backward, which count where the program makes them', () =>
    onMesh(async () => {
      const x = randomTensor([4, 6], 1).requiresGrad_();
      const up = randomTensor([6, 8], 2).requiresGrad_();
      const down = randomTensor([8, 6], 3).requiresGrad_();
      const forward = () => {
        const hidden = fromLocal(x, layoutOf([null, null]))
          .matmul(fromLocal(up.slice(1, 0, 4), layoutOf([null, 'a'])))
          .gelu();
        return hidden
          .matmul(fromLocal(down.slice(0, 0, 4), byRows))
          .redistribute(layoutOf([null, null]));
      };
      // Nobody reads this result. Its all-reduce is not one of those that are counted below.
      void forward();
      const read = (): Promise<unknown> => forward().toLocal().data();
      expect(await countCollectives(read)).toEqual({ allReduce: 1 });
      const train = async (): Promise<void> => {
        forward().square().sum().toLocal().backward();
        await Promise.all([x.grad?.data(), up.grad?.data(), down.grad?.data()]);
      };
      expect(await countCollectives(train)).toEqual({ allReduce: 2 });
      expect(await countCollectives(async () => void forward())).toEqual({ allReduce: 1 });
    }));

  it('shards what all ranks have for nothing, also in uneven parts, and gathers its gradient once', () =>
    onMesh(async () => {
      const shared = rows().requiresGrad_();
      const train = async (): Promise<void> => {
        distributeTensor(shared, byRows).square().toLocal().sum().backward();
        expect(await valuesOf(shared.grad ?? expect.fail())).toEqual([
          0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
        ]);
      };
      expect(await countCollectives(train)).toEqual({ allGather: 1 });
    }));

  it('reduces a mean over shards once, after the sum', () =>
    onMesh(async () => {
      const loss = (): Promise<unknown> =>
        distributeTensor(randomTensor([8, 3], 4), byRows)
          .mean()
          .fullTensor()
          .data();
      expect(await countCollectives(loss)).toEqual({ allReduce: 1 });
    }));
});
