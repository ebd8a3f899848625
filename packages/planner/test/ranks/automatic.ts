import { manualSeed, nn, optim, tensor } from '@shardwise/core';
import { auto } from '@shardwise/planner';
import { ddp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

/** What a rank finds: the strategy that was chosen, and the weights after a step; or an error. */
export type Trained =
  | { readonly strategy: string; readonly weights: readonly number[] }
  | { readonly error: string };

const casesSchema = z.array(z.union([z.enum(['ddp', 'zero']), z.array(z.number())]));

/** Trains for a step with each strategy: by its name, or `auto` with the memory of each rank. */
export async function main({ rank, data, ...context }: RankContext): Promise<readonly Trained[]> {
  await join({ rank, data, ...context });
  const found: Trained[] = [];
  for (const each of casesSchema.parse(data)) {
    manualSeed(3);
    const model = new nn.Linear(4, 4);
    const strategy =
      each === 'ddp'
        ? ddp()
        : each === 'zero'
          ? zero({ stage: 1 })
          : auto({ memoryBytes: each[rank] ?? 0 });
    try {
      const parallel = await parallelize(model, strategy);
      const optimizer = new optim.AdamW(model.parameters(), { lr: 0.1 });
      parallel
        .forward(tensor([[rank + 1, 2, 3, 4]]))
        .square()
        .mean()
        .backward();
      await optimizer.step();
      const weights = [...(await model.weight.data())].map(Number);
      found.push({ strategy: parallel.plan.strategy, weights });
    } catch (error) {
      found.push({ error: error instanceof Error ? error.name : String(error) });
    }
  }
  return found;
}
