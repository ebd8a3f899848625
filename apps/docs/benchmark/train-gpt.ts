import { manualSeed, nn, optim, type Model, type Tensor } from '@shardwise/core';
import { batchOf, tokensPerStep, workload } from '../../../bench/workload.ts';
import { GPT } from '../../../examples/gpt/model.ts';
import type { TrainingFigure } from './benchmark-messages.ts';

/** The number of steps that count. The first step compiles, and does not count. */
const STEPS = 3;

/** Trains the GPT of `npm run bench -- train` on this rank for some steps. */
export async function trainGpt(
  rank: number,
  ranks: number,
  parallelized: (network: GPT) => Promise<Model<[Tensor], Tensor>>,
): Promise<Pick<TrainingFigure, 'stepMs' | 'tokensPerSecond'>> {
  const { layers, heads, context, vocabulary, width, learningRate, weightDecay, seed } = workload;
  manualSeed(seed);
  const network = new GPT({
    vocabularySize: vocabulary,
    contextLength: context,
    layers,
    heads,
    channels: width,
  });
  const model = await parallelized(network);
  const optimizer = new optim.AdamW(network.parameters(), { lr: learningRate, weightDecay });
  const times: number[] = [];
  for (let step = 0; step <= STEPS; step += 1) {
    const began = performance.now();
    const { inputs, targets } = batchOf(step, rank);
    const loss = nn.functional.crossEntropy(model.forward(inputs).flatten(0, 1), targets.flatten());
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    await loss.item();
    times.push(performance.now() - began);
  }
  const stepMs = times.slice(1).toSorted((a, b) => a - b)[Math.floor(STEPS / 2)] ?? Number.NaN;
  return { stepMs, tokensPerSecond: (1000 * ranks * tokensPerStep) / stepMs };
}
