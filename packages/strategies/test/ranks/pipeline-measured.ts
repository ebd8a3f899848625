import { manualSeed, optim, type Tensor, tensor } from '@shardwise/core';
import {
  explain,
  measureModelCosts,
  parallelize,
  pipeline,
  type PipelineOptions,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { Language, languageBatch, languageLoss } from './pipeline-models.ts';

export const measured = z.object({
  /** The costs of modules that the rank was told, as JSON. */
  costs: z.string(),
  alone: z.array(z.number()),
  /** The losses, by the way in which the model is cut. */
  piped: z.record(z.string(), z.array(z.number())),
  explained: z.string(),
});

const rows = 8;

/** Trains a model whose costs were measured. Its cut and its schedule follow from these costs. */
export async function main(context: RankContext): Promise<z.infer<typeof measured>> {
  await join(context, 'cpu', 'pp');
  const { ids, targets } = languageBatch(0, 2);
  const sample: [Tensor, Tensor] = [tensor(ids, 'i32'), tensor(targets, 'i32')];
  const loss = languageLoss;
  const costs = await measureModelCosts(new Language(), sample, { loss });
  const common = { costs, rows, loss };
  const automatic = pipeline({ ...common, schedule: 'automatic', memoryBytes: 1e6 });
  const ways: Readonly<Record<string, Omit<PipelineOptions, 'schedule'>>> = {
    time: { microbatches: 4, cut: 'time' },
    memory: { microbatches: 4, cut: 'memory' },
  };
  const piped: Record<string, number[]> = {};
  for (const [name, way] of Object.entries(ways)) {
    piped[name] = (await train(pipeline({ ...common, ...way }))).losses;
  }
  const { losses, explained } = await train(automatic);
  piped['automatic'] = losses;
  return { costs: JSON.stringify(costs), alone: await trainAlone(), piped, explained };
}

type Piped = ReturnType<typeof pipeline<Tensor, [targets: Tensor]>>;

async function train(strategy: Piped): Promise<{ losses: number[]; explained: string }> {
  manualSeed(1);
  const model = await parallelize(new Language(), strategy);
  const optimizer = new optim.SGD(model.module.parameters(), { lr: 0.1 });
  const losses: number[] = [];
  for (let step = 0; step < 2; step++) {
    const { ids, targets } = languageBatch(step, rows);
    optimizer.zeroGrad();
    const value = model.forward(tensor(ids, 'i32'), tensor(targets, 'i32'));
    value.backward();
    await optimizer.step();
    losses.push(await value.item());
  }
  return { losses, explained: explain(model.plan) };
}

async function trainAlone(): Promise<number[]> {
  manualSeed(1);
  const model = new Language();
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const losses: number[] = [];
  for (let step = 0; step < 2; step++) {
    const { ids, targets } = languageBatch(step, rows);
    optimizer.zeroGrad();
    const value = languageLoss(model.forward(tensor(ids, 'i32')), tensor(targets, 'i32'));
    value.backward();
    await optimizer.step();
    losses.push(await value.item());
  }
  return losses;
}
