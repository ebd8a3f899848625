import { manualSeed, optim, type Tensor, tensor } from '@shardwise/core';
import {
  explain,
  measureModelCosts,
  parallelize,
  pipeline,
  type PipelineOptions,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { Language, languageBatch, languageLoss } from './ranks/pipeline-models.ts';

interface Measured {
  /** The costs of modules that the rank was told, as JSON. */
  readonly costs: string;
  readonly alone: readonly number[];
  /** The losses, by the way in which the model is cut. */
  readonly piped: Readonly<Record<string, readonly number[]>>;
  readonly explained: string;
}

const rows = 8;

/** Trains a model whose costs were measured. Its cut and its schedule follow from these costs. */
async function observe(): Promise<Measured> {
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

it('a pipeline that was cut by what ranks have measured, or chose its schedule so, trains as one rank', async () => {
  const ranks = await onRanks(2, observe, { axes: [{ name: 'pp', size: 2 }], ...onCpu });
  for (const { costs, alone, piped, explained } of ranks) {
    // The costs must be exactly equal, because ranks that cut the model at different places would wait for each other.
    expect(costs).toBe(ranks[0]?.costs);
    for (const losses of Object.values(piped)) {
      for (const [step, loss] of losses.entries()) expect(loss).toBeCloseTo(alone[step] ?? NaN, 5);
    }
    expect(explained).toMatch(/rank +stages +parameters +live +live bytes +sends/);
    expect(explained).not.toContain('take 1 ms each');
  }
});
