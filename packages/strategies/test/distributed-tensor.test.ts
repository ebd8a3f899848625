import { fromData, LayoutError, ones, ShardwiseError, type Tensor } from '@shardwise/core';
import { currentSession, type Layout } from '@shardwise/core/extend';
import {
  type CollectiveCounts,
  countCollectives,
  distributeTensor,
  fromLocal,
  layoutOf,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { axesOf, randomTensor } from './ranks/distributed-tensor-values.ts';

interface Found {
  readonly part: readonly number[];
  readonly partShape: readonly number[];
  readonly whole: readonly number[];
  readonly fromParts: readonly number[];
  readonly refusal: string;
  /** The gradient of the sum of squares of the whole tensor. */
  readonly shardGradient: readonly number[];
  readonly counts: Readonly<
    Record<'forward' | 'training' | 'unread' | 'loss' | 'shard', CollectiveCounts>
  >;
  readonly unsaid: Unsaid;
}

/** What `fromLocal` does without the shape of the whole. */
interface Unsaid {
  /** What two reads of a value of different parts said, by what differs. */
  readonly refusals: Readonly<Record<string, readonly string[]>>;
  /** The mean of equal parts, and the gradient of its square that a part gets. */
  readonly mean: number;
  readonly gradient: readonly number[];
  /** The messages of the ranks' comparison, without the shape of the whole and with it. */
  readonly messages: readonly number[];
}

async function messageOf(value: Tensor): Promise<string> {
  try {
    return String(await value.data());
  } catch (error) {
    if (!ShardwiseError.isInstance(error)) throw error;
    return `${error.code}: ${error.message}`;
  }
}

async function unsaid(rank: number): Promise<Unsaid> {
  const rows = layoutOf(['a', null]);
  const isThird = rank === 2;
  const different: Readonly<Record<string, readonly [part: Tensor, layout: Layout]>> = {
    rows: [ones([isThird ? 1 : 2, 3]), rows],
    columns: [ones([2, isThird ? 4 : 3]), rows],
    dtypes: [ones([2, 3], isThird ? 'i32' : 'f32'), rows],
    layouts: [ones([2, 3]), isThird ? layoutOf([null, 'a']) : rows],
    copies: [ones([isThird ? 1 : 2, 3]), layoutOf([null, null])],
  };
  const refusals: Record<string, string[]> = {};
  for (const [what, [part, layout]] of Object.entries(different)) {
    const values = [
      () => fromLocal(part, layout).sum().fullTensor(),
      () => fromLocal(part, layout).mul(2).toLocal(),
    ];
    refusals[what] = [];
    for (const value of values) {
      const made = value();
      refusals[what].push(await messageOf(made));
      if ((await messageOf(made)) !== refusals[what].at(-1)) refusals[what].push('another text');
    }
  }
  const part = fromData(Float32Array.of(rank < 2 ? 1 : 3), [1, 1], 'f32').requiresGrad_();
  const mean = fromLocal(part, rows).mean().fullTensor();
  mean.square().backward();
  const gradient = Array.from((await part.grad?.data()) ?? [], Number);
  const groups = currentSession().mesh.axes.map(({ name }) => currentSession().mesh.group(name));
  let sent = 0;
  for (const group of groups) {
    const allGather = group.allGather.bind(group);
    group.allGather = (...call) => {
      sent++;
      return allGather(...call);
    };
  }
  const messages: number[] = [];
  for (const shape of [undefined, [2, 1]]) {
    sent = 0;
    await fromLocal(part, rows, shape).mul(2).toLocal().data();
    messages.push(sent);
  }
  const flags = fromLocal(ones([2, 3], 'bool'), rows);
  if (flags.mul(1).dtype !== 'i32' || flags.redistribute(rows).dtype !== 'bool') {
    throw new TypeError('a comparison that changes dtypes');
  }
  return {
    refusals,
    mean: await mean.item(),
    gradient,
    messages,
  };
}

/** Returns what a rank of a 2 x 2 mesh observes of distributed tensors. */
async function observe({ group }: RankInThread): Promise<Found> {
  const rows = fromData(
    Float32Array.from({ length: 10 }, (_, index) => index),
    [5, 2],
    'f32',
  );
  const distributed = distributeTensor(rows, layoutOf([['a', 'b'], null]));
  const parts = fromLocal(
    fromData(Float32Array.of(group.rank), [1], 'f32'),
    layoutOf([['b', 'a']]),
  );
  let refusal = '';
  try {
    fromLocal(distributed.toLocal(), layoutOf([['a', 'b'], null]), [9, 2]);
  } catch (error) {
    if (!(error instanceof LayoutError)) throw error;
    refusal = error.message;
  }

  const x = randomTensor([4, 6], 1).requiresGrad_();
  const up = randomTensor([6, 8], 2).requiresGrad_();
  const down = randomTensor([8, 6], 3).requiresGrad_();
  const forward = () => {
    const hidden = fromLocal(x, layoutOf([null, null]))
      .matmul(fromLocal(up.slice(1, 0, 4), layoutOf([null, 'a'])))
      .gelu();
    return hidden
      .matmul(fromLocal(down.slice(0, 0, 4), layoutOf(['a', null])))
      .redistribute(layoutOf([null, null]));
  };
  // Nobody reads this result. Its all-reduce is not one of those that are counted below.
  void forward();
  const shared = fromData((await rows.data()).slice(), [5, 2], 'f32').requiresGrad_();
  const shardGradient: number[] = [];
  const counts = {
    // The parts are uneven: 3 rows and 2 rows.
    shard: await countCollectives(async () => {
      distributeTensor(shared, layoutOf(['a', null]))
        .square()
        .toLocal()
        .sum()
        .backward();
      shardGradient.push(...Array.from((await shared.grad?.data()) ?? [], Number));
    }),
    forward: await countCollectives(() => forward().toLocal().data()),
    training: await countCollectives(async () => {
      forward().square().sum().toLocal().backward();
      await Promise.all([x.grad?.data(), up.grad?.data(), down.grad?.data()]);
    }),
    unread: await countCollectives(async () => void forward()),
    loss: await countCollectives(() =>
      distributeTensor(randomTensor([8, 3], 4), layoutOf(['a', null]))
        .mean()
        .fullTensor()
        .data(),
    ),
  };
  const found: Found = {
    part: Array.from(await distributed.toLocal().data(), Number),
    partShape: distributed.toLocal().shape,
    whole: Array.from(await distributed.fullTensor().data(), Number),
    fromParts: Array.from(await parts.fullTensor().data(), Number),
    refusal,
    shardGradient,
    counts,
    unsaid: await unsaid(group.rank),
  };
  return found;
}

describe('a distributed tensor on a 2 x 2 mesh', () => {
  let ranks: readonly Found[] = [];

  beforeAll(async () => {
    ranks = await onRanks(4, observe, { axes: axesOf(4) });
  });

  it('a distributed tensor on a 2 x 2 mesh has chunks of chunks of a dim over two axes: 5 rows as 2, 1 and 1, 1', () => {
    expect(ranks.map(({ partShape }) => partShape)).toEqual([
      [2, 2],
      [1, 2],
      [1, 2],
      [1, 2],
    ]);
    expect(ranks.map(({ part }) => part)).toEqual([
      [0, 1, 2, 3],
      [4, 5],
      [6, 7],
      [8, 9],
    ]);
  });

  it('a distributed tensor on a 2 x 2 mesh is whole again on every rank', () => {
    for (const { whole } of ranks) expect(whole).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('a distributed tensor on a 2 x 2 mesh is made of parts in the order of the axes that are named', () => {
    for (const { fromParts } of ranks) expect(fromParts).toEqual([0, 2, 1, 3]);
  });

  it('a distributed tensor on a 2 x 2 mesh refuses a part that is not the one of the layout, with the numbers', () => {
    expect(ranks[0]?.refusal).toContain(
      'a part of shape [2, 2] as shard(0: a·b) of a tensor of shape [9, 2]: a part of shape [3, 2] on this rank',
    );
  });

  it('a distributed tensor on a 2 x 2 mesh is refused on every rank if parts without the shape of the whole differ, with ranks and shapes', () => {
    const parts = {
      rows: ['f32 [2, 3]', 'a part f32 [1, 3]'],
      columns: ['f32 [2, 3]', 'a part f32 [2, 4]'],
      dtypes: ['f32 [2, 3]', 'a part i32 [2, 3]'],
      layouts: ['f32 [2, 3]', 'another layout, and a part f32 [2, 3]'],
      copies: ['f32 [2, 3]', 'a part f32 [1, 3]'],
    };
    for (const { unsaid } of ranks) {
      for (const [what, [first, other]] of Object.entries(parts)) {
        const said = unsaid.refusals[what] ?? [];
        expect(said, what).toHaveLength(2);
        for (const text of said) {
          expect(text).toMatch(
            /^COLLECTIVE_MISMATCH: fromLocal at .*distributed-tensor\.test\.ts:/,
          );
          expect(text).toContain(
            `: rank 0 of 'a', 0 of 'b' has a part ${first}, and rank 1 of 'a', 0 of 'b' has ${other}. `,
          );
        }
      }
    }
  });

  it('a distributed tensor on a 2 x 2 mesh computes with equal parts without the shape of the whole, also gradients', () => {
    for (const { unsaid } of ranks) {
      expect(unsaid.mean).toBe(2);
      // The derivative of mean² is 2 · 2 · 1/2 for each of two elements.
      expect(unsaid.gradient).toEqual([2]);
    }
  });

  it('a distributed tensor on a 2 x 2 mesh compares parts by one message over each axis, and by none if the shape is given', () => {
    for (const { unsaid } of ranks) expect(unsaid.messages).toEqual([2, 0]);
  });

  it('a distributed tensor on a 2 x 2 mesh runs a column and a row parallel product with one all-reduce forward, and one backward', () => {
    for (const { counts } of ranks) {
      expect(counts.forward).toEqual({ allReduce: 1 });
      expect(counts.training).toEqual({ allReduce: 2 });
    }
  });

  it('shards what all ranks have for nothing, and gathers its gradient once', () => {
    for (const { counts, shardGradient } of ranks) {
      expect(counts.shard).toEqual({ allGather: 1 });
      expect(shardGradient).toEqual([0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
    }
  });

  it('a distributed tensor on a 2 x 2 mesh counts collectives whose results nobody reads where the program makes them', () => {
    for (const { counts } of ranks) expect(counts.unread).toEqual({ allReduce: 1 });
  });

  it('reduces a mean over shards once, after the sum', () => {
    for (const { counts } of ranks) expect(counts.loss).toEqual({ allReduce: 1 });
  });
});
