import { LayoutError, fromData } from '@shardwise/core';
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
  readonly counts: Readonly<Record<'forward' | 'training' | 'loss' | 'shard', CollectiveCounts>>;
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
  };
  group.close();
  return found;
}
