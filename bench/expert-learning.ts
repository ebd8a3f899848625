import { cpu } from '@shardwise/backend-cpu';
import { readTextFiles } from '@shardwise/core/node';
import { data, fromArray, manualSeed, nn, noGrad, optim, setRank } from 'shardwise';
import { GPT } from '../examples/gpt/model.ts';
import { readOptions } from '../examples/gpt/options.ts';
import type { Bench, BenchResult } from './bench.ts';
import { countOf } from './rounds.ts';
import { textBatches } from './text-batches.ts';

const SEEDS = [1, 2, 3];
const EXPERTS = 8;
const STEPS = 1000;
const SHOWN_EVERY = 100;
const sizes = { vocabularySize: 256, contextLength: 64, layers: 2, heads: 4, channels: 96 };
const batchSize = 16;
const learningRate = 2e-3;
const validationBatches = 16;

type Text = ReturnType<typeof data.splitText>;

/** What a model learned with one seed. Losses are in nats per byte. */
interface Learned {
  readonly seed: number;
  /** The mean training losses of successive stretches of steps. */
  readonly training: readonly number[];
  readonly validation: number;
}

/**
 * Compares a GPT with experts and a dense one that computes as many products for each token. Both learn the text of the
 * example.
 */
export const expertLearning: Bench = {
  about: `losses of a GPT with ${EXPERTS} experts, two for each token, and of a dense one of the same compute`,
  flags: { steps: { type: 'string' } },
  run: async (values) => {
    const steps = countOf(values, 'steps', STEPS);
    const text = data.splitText(await readTextFiles(readOptions([]).data), 0.05);
    setRank({ device: await cpu() });
    const dense: Learned[] = [];
    const experts: Learned[] = [];
    for (const seed of SEEDS) {
      dense.push(await learn(text, seed, steps, 0));
      experts.push(await learn(text, seed, steps, EXPERTS));
    }
    return resultOf(dense, experts, steps);
  },
};

/**
 * Trains a model. `experts` is the number of experts of half the width, two of which each token has. 0 means a dense
 * model.
 */
async function learn(text: Text, seed: number, steps: number, experts: number): Promise<Learned> {
  manualSeed(seed);
  const { channels, contextLength } = sizes;
  const hiddenChannels = experts === 0 ? 4 * channels : 2 * channels;
  const model = new GPT({ ...sizes, hiddenChannels, experts });
  const optimizer = new optim.AdamW(model.parameters(), {
    lr: learningRate,
    betas: [0.9, 0.95],
    weightDecay: 0.1,
  });
  const schedule = optim.warmupSchedule(
    Math.ceil(steps / 10),
    optim.cosineSchedule(steps - Math.ceil(steps / 10), 0.1),
  );
  const place = { rank: 0, size: 1 };
  const loader = textBatches(text.train, { contextLength, batchSize, seed, ...place });
  const losses: number[] = [];
  for await (const { x, y } of loader) {
    for (const group of optimizer.paramGroups) {
      group.lr = learningRate * schedule(losses.length + 1);
    }
    optimizer.zeroGrad();
    const loss = nn.functional.crossEntropy(model.forward(fromArray(x)), fromArray(y));
    loss.add(nn.auxiliaryLoss(model)).backward();
    optim.clipGradNorm(model.parameters(), 1);
    await optimizer.step();
    losses.push(await loss.item());
    if (losses.length === steps) break;
  }
  const training = Array.from({ length: Math.ceil(losses.length / SHOWN_EVERY) }, (_, index) =>
    mean(losses.slice(index * SHOWN_EVERY, (index + 1) * SHOWN_EVERY)),
  );
  return { seed, training, validation: await validationLoss(model, text) };
}

/** Returns the mean loss of windows that are spread over the text. They are the same for all models. */
async function validationLoss(model: GPT, text: Text): Promise<number> {
  const { contextLength } = sizes;
  const dataset = new data.TextDataset(text.validation, { contextLength });
  const windows = validationBatches * batchSize;
  const place = (index: number): number =>
    Math.floor((index * (dataset.length - 1)) / (windows - 1));
  model.eval();
  const losses: number[] = [];
  for (let first = 0; first < windows; first += batchSize) {
    const samples = Array.from({ length: batchSize }, (_, index) =>
      dataset.get(place(first + index)),
    );
    const { x, y } = data.collate(samples);
    const loss = noGrad(() =>
      nn.functional.crossEntropy(model.forward(fromArray(x)), fromArray(y)),
    );
    losses.push(await loss.item());
  }
  return mean(losses);
}

function resultOf(
  dense: readonly Learned[],
  experts: readonly Learned[],
  steps: number,
): BenchResult {
  const rows = dense.map(({ seed, validation }, index) => {
    const other = experts[index]?.validation ?? NaN;
    return [
      `validation loss, seed ${seed}`,
      `dense ${validation.toFixed(3)}, experts ${other.toFixed(3)} nats a byte`,
    ] as const;
  });
  return {
    rows,
    record: {
      steps,
      experts: EXPERTS,
      trainingEvery: SHOWN_EVERY,
      dense,
      withExperts: experts,
      isAtLeastAsGood: experts.every(
        ({ validation }, index) => validation <= (dense[index]?.validation ?? NaN),
      ),
    },
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
