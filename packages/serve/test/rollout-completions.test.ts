import { cpu } from '@shardwise/backend-cpu';
import { fromData, manualSeed, noGrad, optim } from '@shardwise/core';
import type { GeneratingModel, PretrainedModel } from '@shardwise/models';
import { ddp, fsdp, parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { Engine } from '../src/engine/engine.ts';
import {
  generateRolloutCompletions,
  type RolloutCompletion,
  type RolloutOptions,
} from '../src/engine/rollout-completions.ts';
import { randomTokens, smallModel, trainingLogProbabilities, useCpu } from './models.ts';

const prompts = [20, 33, 7, 50].map((length, index) => randomTokens(index + 1, length));
const options = { seed: 3, numGenerations: 2, maxNewTokens: 6, ignoreEos: true } as const;
const onCpu = { createDevice: () => cpu({ batchInvariant: true }) };

beforeAll(useCpu);

/** Fails unless each token has, bit for bit, the log-probability that a training forward gives it. */
async function expectAgreement(
  model: PretrainedModel,
  completions: readonly RolloutCompletion[],
): Promise<void> {
  for (const { promptTokens, tokens, logProbabilities } of completions) {
    const all = await trainingLogProbabilities(model, [...promptTokens, ...tokens]);
    expect(logProbabilities).toEqual(all.slice(promptTokens.length - 1));
  }
}

function optimizerOf(model: PretrainedModel): optim.AdamW {
  return new optim.AdamW(model.parameters(), { lr: 0.01 });
}

/** Makes the model's prediction of a text more likely by a step, and says when the step is done. */
function train(model: PretrainedModel, optimizer: optim.AdamW): Promise<unknown> {
  const [text = []] = prompts;
  const ids = fromData(Int32Array.from(text), [1, text.length], 'i32');
  optimizer.zeroGrad();
  model.forward(ids, { labels: ids }).backward();
  return optimizer.step();
}

describe('A training that generates', () => {
  test('uses the weights of each step at once, and no prefix that older ones made.', async () => {
    const model = smallModel(211, 1);
    const engine = new Engine(model);
    const optimizer = optimizerOf(model);
    const rollouts: (readonly RolloutCompletion[])[] = [];
    for (let step = 0; step < 2; step++) {
      const before = engine.statistics.prefixTokens;
      const completions = await generateRolloutCompletions(engine, prompts, options);
      // The same prompts came before, but with other weights. Completions of one prompt share it.
      expect(engine.statistics.prefixTokens).toBe(before);
      await expectAgreement(model, completions);
      rollouts.push(completions);
      await train(model, optimizer);
    }
    const [first, second] = rollouts.map((each) => each.flatMap((one) => one.logProbabilities));
    expect(first).not.toEqual(second);
    await generateRolloutCompletions(engine, prompts, options);
    const { prefixTokens } = engine.statistics;
    await generateRolloutCompletions(engine, prompts, options);
    expect(engine.statistics.prefixTokens).toBeGreaterThan(prefixTokens);
    await engine.dispose();
  });

  test('uses the weights of a step that nobody has awaited yet.', async () => {
    const model = smallModel(211, 1);
    const engine = new Engine(model);
    await generateRolloutCompletions(engine, prompts, options);
    const step = train(model, optimizerOf(model));
    const completions = await generateRolloutCompletions(engine, prompts, options);
    await step;
    await expectAgreement(model, completions);
    expect(engine.statistics.prefixTokens).toBe(0);
    await engine.dispose();
  });

  test('is in training again behind it.', async () => {
    const model = smallModel(211, 1);
    const engine = new Engine(model);
    await generateRolloutCompletions(engine, prompts, options);
    await engine.drain();
    expect(model.training).toBe(true);
    await engine.dispose();
  });

  test('gets different completions of a prompt, of equal prompts, and of other seeds.', async () => {
    const engine = new Engine(smallModel(211, 1));
    const same = prompts.map(() => [1, 2, 3]);
    const first = await generateRolloutCompletions(engine, same, options);
    const other = await generateRolloutCompletions(engine, same, { ...options, seed: 4 });
    const texts = [...first, ...other].map(({ tokens }) => tokens.join());
    expect(new Set(texts).size).toBe(16);
    await engine.dispose();
  });

  test('is told of weights that change while completions are made.', async () => {
    const model = smallModel(211, 1);
    const [parameter] = model.parameters();
    let steps = 0;
    const engine = new Engine(model, null, {
      beforeStep: async () => {
        if (++steps !== 3) return;
        noGrad(() => parameter?.assign(parameter.mul(1.1)));
        await parameter?.realize();
      },
    });
    await expect(generateRolloutCompletions(engine, prompts, options)).rejects.toThrow(
      'weights that changed while',
    );
    expect(steps).toBeGreaterThanOrEqual(3);
    await engine.dispose();
  });

  test('is told of a prompt that the model cannot answer, and no request is left.', async () => {
    const engine = new Engine(smallModel(211, 1));
    await expect(
      generateRolloutCompletions(engine, [[1, 2], [211]], { ...options, maxNewTokens: 50 }),
    ).rejects.toThrow('the token 211');
    await engine.drain();
    expect(engine.statistics).toMatchObject({ waiting: 0, running: 0, usedBlocks: 0 });
    await engine.dispose();
  });
});

interface Asked {
  readonly prompts?: readonly (readonly number[])[];
  readonly options?: RolloutOptions;
}

function onSomeRanks(
  size: number,
  asked: (rank: number) => Asked = () => ({}),
): Promise<readonly (readonly RolloutCompletion[])[]> {
  return onRanks(
    size,
    async ({ rank }) => {
      manualSeed(1);
      const model: GeneratingModel = await parallelize(smallModel(211, 1), ddp());
      const engine = new Engine(model);
      const own = asked(rank);
      const completions = await generateRolloutCompletions(
        engine,
        own.prompts ?? prompts,
        own.options ?? options,
      );
      await engine.dispose();
      return completions;
    },
    onCpu,
  );
}

describe('On several ranks', () => {
  test('each has a part of the prompts, with the completions that one rank makes.', async () => {
    const [alone] = await onSomeRanks(1);
    expect(alone?.map(({ promptIndex, sample }) => [promptIndex, sample])).toEqual(
      prompts.flatMap((_, prompt) => [0, 1].map((sample) => [prompt, sample])),
    );
    const two = await onSomeRanks(2);
    expect(two.map(({ length }) => length)).toEqual([4, 4]);
    expect(two.flat()).toEqual(alone);
  });

  test.each<readonly [string, (rank: number) => Asked]>([
    ['prompts', (rank) => ({ prompts: prompts.map((prompt) => [...prompt, rank]) })],
    ['a seed', (rank) => ({ options: { ...options, seed: rank } })],
    ['options', (rank) => ({ options: { ...options, temperature: 1 + rank } })],
  ])('%s of its own on a rank is an error.', async (_, asked) => {
    await expect(onSomeRanks(2, asked)).rejects.toThrow(
      'other prompts, another seed or other options on another rank',
    );
  });

  test('a number of prompts that cannot be shared evenly is an error.', async () => {
    await expect(onSomeRanks(2, () => ({ prompts: prompts.slice(1) }))).rejects.toThrow(
      'Give a multiple of 2 prompts',
    );
  });

  test('parts of a model are refused.', async () => {
    await expect(
      onRanks(2, async () => new Engine(await parallelize(smallModel(211, 1), fsdp())), onCpu),
    ).rejects.toThrow('have parts');
  });
});
