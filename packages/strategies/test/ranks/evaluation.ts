import {
  fromData,
  nn,
  noGrad,
  optim,
  statistics,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { dataParallel, ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

export const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  DataParallel: () => dataParallel(),
};

const numbers = z.array(z.number());
export const evaluation = z.object({
  /** The statistics after the strategy has been applied. Before that, rank r has set its own to r + 1. */
  initial: numbers,
  /** Rank 0's statistics after each epoch, computed from its own batches. Other ranks have different ones. */
  own: z.array(numbers),
  /** The outputs for the same inputs after each epoch, in a first and a second forward pass. */
  outputs: z.array(z.array(numbers)),
  /** The number of collectives in the second forward pass. */
  collectives: numbers,
});
export type Evaluation = z.infer<typeof evaluation>;
export const evaluations = z.record(z.string(), evaluation);

/** Values of a batch. Shape: -> [4, 2, 2, 2]. */
function batch(seed: number): Tensor {
  const values = Float32Array.from({ length: 32 }, (_, i) => Math.sin(seed * 31 + i * 1.7));
  return fromData(values, [4, 2, 2, 2], 'f32');
}

async function evaluate(strategy: Strategy, rank: number): Promise<Evaluation> {
  const norm = new nn.BatchNorm2d(2);
  const model = new nn.Sequential(new nn.Conv2d(2, 2, 1), norm);
  norm.runningMean.assign(fromData(Float32Array.of(rank + 1, rank + 1), [2], 'f32'));
  noGrad(() => {
    for (const parameter of model.parameters()) {
      const values = Float32Array.from({ length: parameter.numel }, (_, i) => Math.sin(i + 1));
      parameter.assign(fromData(values, parameter.shape, 'f32'));
    }
  });
  const parallel = await parallelize(model, strategy);
  const found: Evaluation = { initial: await read(norm), own: [], outputs: [], collectives: [] };
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  for (let epoch = 0; epoch < 2; epoch++) {
    model.train();
    for (let step = 0; step < 2; step++) {
      optimizer.zeroGrad();
      parallel
        .forward(batch(10 * epoch + step + 100 * rank))
        .square()
        .mean()
        .backward();
      await optimizer.step();
    }
    found.own.push(await read(norm));
    model.eval();
    const outputs: number[][] = [];
    let before = 0;
    for (let pass = 0; pass < 2; pass++) {
      before = statistics().collectives;
      const y = noGrad(() => parallel.forward(batch(7)));
      outputs.push(Array.from(await y.data(), Number));
    }
    found.outputs.push(outputs);
    found.collectives.push(statistics().collectives - before);
  }
  return found;
}

async function read(norm: nn.BatchNorm2d): Promise<number[]> {
  const mean = await norm.runningMean.data();
  const variance = await norm.runningVar.data();
  return [...Array.from(mean, Number), ...Array.from(variance, Number)];
}

export async function main(context: RankContext): Promise<Record<string, Evaluation>> {
  await join(context);
  const found: Record<string, Evaluation> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    found[name] = await evaluate(strategy(), context.rank);
  }
  return found;
}
