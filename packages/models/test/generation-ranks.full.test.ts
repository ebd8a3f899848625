import { manualSeed, type Strategy } from '@shardwise/core';
import {
  addLora,
  generate,
  GPT2LMHeadModel,
  LlamaForCausalLM,
  type PretrainedModel,
} from '@shardwise/models';
import { ddp, fsdp, parallelize, pipeline, tensorParallel } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { fill } from './golden/formulas.ts';

const strategies: Readonly<
  Record<string, { readonly axis: string; readonly strategy: () => Strategy }>
> = {
  DDP: { axis: 'dp', strategy: () => ddp() },
  FSDP: { axis: 'dp', strategy: () => fsdp() },
  'tensor parallelism': { axis: 'tp', strategy: () => tensorParallel() },
  'a pipeline': { axis: 'pp', strategy: () => pipeline({ microbatches: 2 }) },
};

interface Texts {
  greedy: number[][];
  drawn: number[][];
  beams: number[][];
  /** The text of a prompt of this rank's own. */
  own: number[][];
}

const prompts: readonly (readonly number[])[] = [[5, 9, 2], [7, 1, 1, 30, 4, 8, 22], [11]];

/** A prompt whose text ends after a number of tokens that differs between ranks. */
function ownPrompt(rank: number): readonly number[] {
  return prompts[rank] ?? [];
}

const models: Readonly<Record<string, () => Promise<PretrainedModel>>> = {
  Llama: () =>
    withAdapters(
      new LlamaForCausalLM({
        vocabSize: 48,
        hiddenSize: 16,
        intermediateSize: 24,
        numHiddenLayers: 2,
        numAttentionHeads: 4,
        numKeyValueHeads: 2,
        maxPositionEmbeddings: 64,
      }),
    ),
  'GPT-2': () =>
    withAdapters(
      new GPT2LMHeadModel({ vocabSize: 48, nEmbd: 16, nLayer: 2, nHead: 4, nPositions: 64 }),
    ),
};

/** Gives all linear layers adapters whose values are not zero. */
async function withAdapters(model: PretrainedModel): Promise<PretrainedModel> {
  addLora(model, { rank: 2, alpha: 3, targetModules: 'all-linear' });
  await fill(model);
  return model;
}

async function textsOf(
  model: Parameters<typeof generate>[0],
  rank: number,
  seed: number,
): Promise<Texts> {
  const maxNewTokens = 9;
  manualSeed(seed);
  return {
    greedy: await generate(model, prompts, { maxNewTokens }),
    drawn: await generate(model, prompts, { maxNewTokens, doSample: true, temperature: 2 }),
    beams: await generate(model, prompts, { maxNewTokens, numBeams: 3 }),
    own: await generate(model, [ownPrompt(rank)], { maxNewTokens: 4 + 9 * rank }),
  };
}

async function generateOnRank(rank: number, name: string, model: string): Promise<Texts> {
  const { axis, strategy } = strategies[name] ?? expect.fail(name);
  const build = models[model] ?? expect.fail(model);
  const parallel = await parallelize(await build(), strategy());
  // Ranks of other batches may draw other tokens. Those of one batch must not, whatever their seeds are.
  const isShared = axis !== 'dp';
  return textsOf(parallel, isShared ? 0 : rank, isShared ? rank : 0);
}

const size = 2;
const timeoutMs = 600_000;
const alone = new Map<string, readonly Texts[]>();

beforeAll(async () => {
  for (const [name, build] of Object.entries(models)) {
    const [texts = []] = await onRanks(
      1,
      async () => {
        const model = await build();
        return [await textsOf(model, 0, 0), await textsOf(model, 1, 0)];
      },
      onCpu,
    );
    alone.set(name, texts);
  }
}, timeoutMs);

const cases = Object.entries(strategies).flatMap(([name, { axis }]) =>
  Object.keys(models).map((model) => ({ name, axis, model })),
);

it.each(cases)(
  'ranks of $name generate the texts of one rank with $model and adapters',
  async ({ name, axis, model }) => {
    const options = { axes: [{ name: axis, size }], ...onCpu };
    const ranks = await onRanks(size, ({ rank }) => generateOnRank(rank, name, model), options);
    for (const [rank, found] of ranks.entries()) {
      expect(found).toEqual(alone.get(model)?.[axis === 'dp' ? rank : 0]);
    }
  },
  timeoutMs,
);
