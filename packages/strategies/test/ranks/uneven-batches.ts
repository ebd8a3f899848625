import {
  allReduce,
  fromData,
  manualSeed,
  nn,
  optim,
  ShardwiseError,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { ddp, fsdp, joinBatches, parallelize, type JoinOptions, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

export const strategies = {
  ddp: () => ddp(),
  'zero 1': () => zero({ stage: 1 }),
  'zero 2': () => zero({ stage: 2 }),
  'zero 3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
} satisfies Record<string, () => Strategy>;

const rows = 3;

/** The batch with this number of a rank. Shape: -> [3, 4]. */
export function batchOf(rank: number, number: number): Tensor {
  const values = Float32Array.from({ length: rows * 4 }, (_, i) =>
    Math.sin(1 + i + 5 * number + 17 * rank),
  );
  return fromData(values, [rows, 4], 'f32');
}

/** A rank has one batch more than the one before it. */
export const batchesOf = (rank: number): number => 1 + rank;

export function build(): nn.Sequential {
  manualSeed(4);
  return new nn.Sequential(new nn.Linear(4, 5), new nn.Tanh(), new nn.Linear(5, 1));
}

export const optimizerOf = (model: nn.Module): optim.SGD =>
  new optim.SGD(model.parameters(), { lr: 0.2, momentum: 0.9 });

export const lossOf = (output: Tensor): Tensor => output.square().mean();

export const trained = z.object({
  weights: z.array(z.number()),
  updated: z.array(z.boolean()),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

export type Trained = z.infer<typeof trained>;

export interface UnevenBatchesTask {
  readonly strategy: keyof typeof strategies;
  readonly options: JoinOptions;
  /** The rank that has no batch. */
  readonly without?: number;
  /** In the second step, the loss of this rank is not finite. */
  readonly badRank?: number;
}

async function train(
  { strategy, options, without, badRank }: UnevenBatchesTask,
  rank: number,
): Promise<Trained> {
  const parallel = await parallelize(build(), strategies[strategy]());
  const optimizer = optimizerOf(parallel.module);
  const count = rank === without ? 0 : batchesOf(rank);
  const batches = Array.from({ length: count }, (_, number) => batchOf(rank, number));
  const updated: boolean[] = [];
  let error: Trained['error'] = null;
  try {
    for await (const { batch, weight } of joinBatches(batches, options)) {
      optimizer.zeroGrad();
      const isBad = rank === badRank && updated.length === 1;
      const loss = lossOf(parallel.forward(batch)).mul(isBad ? Number.NaN : weight);
      loss.backward();
      const isBadAnywhere = allReduce(loss.isFinite().logicalNot().to('f32'), 'dp').gt(0);
      optim.clipGradNorm(parallel.module.parameters(), 0.5);
      updated.push(await optimizer.step({ skipIf: isBadAnywhere }));
    }
  } catch (caught) {
    if (!ShardwiseError.isInstance(caught)) throw caught;
    error = { code: caught.code, message: caught.message };
  }
  const weights = parallel.module
    .parameters()
    .map(async (each) => Array.from(await each.data(), Number));
  return { weights: (await Promise.all(weights)).flat(), updated, error };
}

export async function main(
  context: RankContext<unknown, readonly UnevenBatchesTask[]>,
): Promise<readonly Trained[]> {
  await join(context, 'interpreter');
  const found: Trained[] = [];
  for (const task of context.data) found.push(await train(task, context.rank));
  return found;
}
