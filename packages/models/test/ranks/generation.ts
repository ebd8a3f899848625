import { cpu } from '@shardwise/backend-cpu';
import { createMesh, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { manualSeed, type MeshAxis, setRank, type Strategy } from '@shardwise/core';
import { generate, LlamaForCausalLM } from '@shardwise/models';
import {
  colwiseParallel,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  rowwiseParallel,
  tensorParallel,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { fill } from '../golden/formulas.ts';

const columns = colwiseParallel();
const rows = rowwiseParallel();

export const strategies: Readonly<
  Record<string, { readonly axis: string; readonly strategy: () => Strategy }>
> = {
  DDP: { axis: 'dp', strategy: () => ddp() },
  FSDP: { axis: 'dp', strategy: () => fsdp() },
  'tensor parallelism': {
    axis: 'tp',
    strategy: () =>
      tensorParallel({
        '**.q_proj': columns,
        '**.k_proj': columns,
        '**.v_proj': columns,
        '**.o_proj': rows,
        '**.gate_proj': columns,
        '**.up_proj': columns,
        '**.down_proj': rows,
      }),
  },
  'a pipeline': {
    axis: 'pp',
    strategy: () => pipeline({ cut: ['model.layers.1'], microbatches: 2 }),
  },
};

export const texts = z.object({
  greedy: z.array(z.array(z.number())),
  drawn: z.array(z.array(z.number())),
  beams: z.array(z.array(z.number())),
  /** The text of a prompt of this rank's own. */
  own: z.array(z.array(z.number())),
});
export type Texts = z.infer<typeof texts>;

export interface GenerationTask {
  readonly axes: readonly MeshAxis[];
  readonly name: string;
}

export const prompts: readonly (readonly number[])[] = [[5, 9, 2], [7, 1, 1, 30, 4, 8, 22], [11]];

/** A prompt whose text ends after a number of tokens that differs between ranks. */
export function ownPrompt(rank: number): readonly number[] {
  return prompts[rank] ?? [];
}

export async function build(): Promise<LlamaForCausalLM> {
  const model = new LlamaForCausalLM({
    vocabSize: 48,
    hiddenSize: 16,
    intermediateSize: 24,
    numHiddenLayers: 2,
    numAttentionHeads: 4,
    numKeyValueHeads: 2,
    maxPositionEmbeddings: 64,
  });
  await fill(model);
  return model;
}

export async function textsOf(
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

export async function main({
  rank,
  world,
  data,
}: RankContext<ThreadsWorld, GenerationTask>): Promise<Texts> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const mesh = await createMesh(joinThreadsWorld(world, rank), data.axes);
  setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
  const { strategy } = strategies[data.name] ?? {};
  if (strategy === undefined) throw new RangeError(data.name);
  const parallel = await parallelize(await build(), strategy());
  // Ranks of other batches may draw other tokens. Those of one batch must not, whatever their seeds are.
  const isShared = data.axes[0]?.name !== 'dp';
  return textsOf(parallel, isShared ? 0 : rank, isShared ? rank : 0);
}
