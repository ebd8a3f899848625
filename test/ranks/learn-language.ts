import { fromData, manualSeed, nn, optim } from 'shardwise';
import { ddp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { GPT } from '../../examples/gpt/model.ts';
import { join } from './join.ts';

export const vocabularySize = 8;

/** Makes the tokens of a sequence. Each token but the first is to be predicted from those before it. */
type Language = (random: () => number) => readonly number[];

/** The probability of a state's first successor. Otherwise its second successor follows. */
export const likely = 0.8;

/** The length of the random half of a copied sequence. */
export const prefixLength = 8;

/** Languages whose best possible loss is known. */
export const languages = {
  /** A chain of states, each with two successors. */
  markov: (random) => {
    const tokens = [Math.floor(random() * vocabularySize)];
    while (tokens.length < 2 * prefixLength) {
      const state = tokens.at(-1) ?? 0;
      tokens.push((random() < likely ? state * 3 + 1 : state * 5 + 2) % vocabularySize);
    }
    return tokens;
  },
  /** Random tokens, followed by the same tokens again. */
  copy: (random) => {
    const prefix = Array.from({ length: prefixLength }, () =>
      Math.floor(random() * vocabularySize),
    );
    return [...prefix, ...prefix];
  },
} satisfies Record<string, Language>;

export const learned = z.object({ losses: z.array(z.number()) });

export const task = z.object({ language: z.enum(['markov', 'copy']), steps: z.int() });

/**
 * Returns a generator of numbers in [0, 1), with a different stream on each rank (Numerical Recipes' constants, upper
 * bits).
 */
function randomNumbers(seed: number): () => number {
  let state = BigInt(seed + 1) * 0x9e3779b97f4a7c15n;
  return () => {
    state = BigInt.asUintN(64, state * 6_364_136_223_846_793_005n + 1_442_695_040_888_963_407n);
    return Number(state >> 33n) / 2 ** 31;
  };
}

/** Trains the GPT of the example on this rank's part of batches that are new at every step. Returns the losses. */
export async function main(context: RankContext): Promise<z.infer<typeof learned>> {
  const { language, steps } = task.parse(context.data);
  await join(context);
  manualSeed(1);
  const length = 2 * prefixLength - 1;
  const batchSize = 32;
  const model = new GPT({
    vocabularySize,
    contextLength: length,
    layers: 1,
    heads: 2,
    channels: 32,
  });
  const parallel = await parallelize(model, ddp());
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-2, betas: [0.9, 0.95] });
  const random = randomNumbers(context.rank);
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    const sequences = Array.from({ length: batchSize }, () => languages[language](random));
    const ids = (from: number) =>
      fromData(
        Int32Array.from(sequences.flatMap((tokens) => tokens.slice(from, from + length))),
        [batchSize, length],
        'i32',
      );
    for (const group of optimizer.paramGroups)
      group.lr = 1e-2 * Math.min(1, (steps - step) / (steps / 2));
    optimizer.zeroGrad();
    const loss = nn.functional.crossEntropy(parallel.forward(ids(0)), ids(1));
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return { losses };
}
