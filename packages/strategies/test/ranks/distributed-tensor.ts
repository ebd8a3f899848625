import { LayoutError, fromData, ones, ShardwiseError, type Tensor } from '@shardwise/core';
import { currentSession, type Layout } from '@shardwise/core/extend';
import {
  countCollectives,
  distributeTensor,
  fromLocal,
  layoutOf,
  type CollectiveCounts,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { joinMesh, randomTensor } from './distributed-tensor-values.ts';

export interface Found {
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
export interface Unsaid {
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
export async function main(context: RankContext): Promise<Found> {
  const group = await joinMesh(context);
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
  group.close();
  return found;
}
