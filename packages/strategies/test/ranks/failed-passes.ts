import { manualSeed, nn, optim, type Strategy, tensor, TensorStateError } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

export const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp({ bucketBytes: 1 }),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2, bucketBytes: 1 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

/** The losses after a backward pass that failed half-way, and the losses without that pass. */
export const observations = z.record(
  z.string(),
  z.object({ after: z.array(z.number()), without: z.array(z.number()) }),
);

export async function main(context: RankContext): Promise<z.infer<typeof observations>> {
  await join(context, 'interpreter');
  const found: z.infer<typeof observations> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    const without = await train(strategy(), context.rank, false);
    found[name] = { after: await train(strategy(), context.rank, true), without };
  }
  return found;
}

async function train(strategy: Strategy, rank: number, failsFirst: boolean): Promise<number[]> {
  manualSeed(0);
  const model = new nn.Sequential(new nn.Linear(3, 4), new nn.Linear(4, 2));
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  if (failsFirst) {
    const x = tensor([[1, rank, 3]]);
    const loss = parallel.forward(x).sum();
    // Backward reaches the first layer last. The gradient of that layer reads x.
    await x.assign(tensor([[0, 0, 0]])).realize();
    try {
      loss.backward();
    } catch (error) {
      if (!(error instanceof TensorStateError)) throw error;
    }
    optimizer.zeroGrad();
  }
  const losses: number[] = [];
  for (let step = 0; step < 3; step++) {
    optimizer.zeroGrad();
    const loss = parallel
      .forward(tensor([[1, 2 * rank, step]]))
      .square()
      .sum();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}
