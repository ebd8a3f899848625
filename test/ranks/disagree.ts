import { dist, nn, ones } from 'shardwise';
import { ddp, fsdp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { join } from './join.ts';

/** The ways in which the last rank differs from the others. */
export const disagreements = {
  'the shape of a batch': async (isLast) => {
    await dist.allReduce(ones([isLast ? 5 : 4, 3]).add(1), 'dp').data();
  },
  'the operation': async (isLast) => {
    const x = ones([4]).add(1);
    await (isLast ? dist.broadcast(x, 'dp') : dist.allReduce(x, 'dp')).data();
  },
  'the limit of buckets': async (isLast) => {
    const parallel = await parallelize(new nn.Linear(6, 5), ddp(isLast ? { bucketBytes: 1 } : {}));
    const loss = parallel.forward(ones([2, 6])).sum();
    loss.backward();
    await loss.item();
  },
  'the model': async (isLast) => {
    await parallelize(new nn.Linear(6, isLast ? 7 : 5), ddp());
  },
  'the strategy': async (isLast) => {
    await parallelize(new nn.Linear(6, 5), isLast ? fsdp() : ddp());
  },
} satisfies Record<string, (isLast: boolean) => Promise<void>>;

export type Disagreement = keyof typeof disagreements;

function isDisagreement(value: unknown): value is Disagreement {
  return typeof value === 'string' && Object.hasOwn(disagreements, value);
}

export async function main(context: RankContext): Promise<void> {
  const { data, rank, size } = context;
  if (!isDisagreement(data)) throw new RangeError(`no disagreement ${String(data)}`);
  await join(context);
  await disagreements[data](rank === size - 1);
}
