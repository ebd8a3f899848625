import { createMesh } from '@shardwise/collectives';
import { type MeshAxis, manualSeed, type nn, setRank, type Strategy } from '@shardwise/core';
import { currentSession, dtypes, type ModelFolder } from '@shardwise/core/extend';
import { diskFolder } from '@shardwise/core/node';
import { LlamaForCausalLM, MixtralForCausalLM, type PretrainedModel } from '@shardwise/models';
import { fromPretrained, loadPretrained, savePretrained } from '@shardwise/models/node';
import {
  colwiseParallel,
  compose,
  ddp,
  expertParallel,
  fsdp,
  parallelize,
  pipeline,
  rowwiseParallel,
  tensorParallel,
  vocabParallelEmbedding,
  zero,
} from '@shardwise/strategies';
import type { RankInThread } from '@shardwise/testing/node';

const sizes = {
  vocabSize: 512,
  hiddenSize: 64,
  intermediateSize: 128,
  numHiddenLayers: 4,
  numAttentionHeads: 4,
  numKeyValueHeads: 2,
  maxPositionEmbeddings: 16,
} as const;

export const models = {
  llama: () => new LlamaForCausalLM(sizes),
  // Its files have a tensor for each expert, in the other order than the model.
  mixtral: () =>
    new MixtralForCausalLM({
      ...sizes,
      numHiddenLayers: 1,
      intermediateSize: 24,
      numLocalExperts: 3,
    }),
  // Ranks of expert parallelism divide its experts.
  mixtral4: () =>
    new MixtralForCausalLM({
      ...sizes,
      numHiddenLayers: 2,
      intermediateSize: 96,
      numLocalExperts: 4,
    }),
} as const satisfies Record<string, () => PretrainedModel>;

const tp = (): Strategy => {
  const [column, row] = [colwiseParallel(), rowwiseParallel()];
  return tensorParallel({
    'model.embed_tokens': vocabParallelEmbedding(),
    'model.layers.*.self_attn.q_proj': column,
    'model.layers.*.self_attn.k_proj': column,
    'model.layers.*.self_attn.v_proj': column,
    'model.layers.*.self_attn.o_proj': row,
    'model.layers.*.mlp.gate_proj': column,
    'model.layers.*.mlp.up_proj': column,
    'model.layers.*.mlp.down_proj': row,
    lm_head: colwiseParallel({ output: 'invariant' }),
  });
};

const pp = (): Strategy => {
  const { size } = currentSession().mesh.group('pp');
  const cut = Array.from({ length: size - 1 }, (_, index) => `model.layers.${index + 1}`);
  return pipeline({ microbatches: 1, cut });
};

export const strategies = {
  ddp: ['dp', () => ddp()],
  'zero-3': ['dp', () => zero({ stage: 3 })],
  fsdp: ['dp', () => fsdp()],
  tp: ['tp', tp],
  pp: ['pp', pp],
  ep: ['ep', () => expertParallel()],
  'tp × fsdp': ['dp × tp', () => compose(tp(), fsdp())],
} as const satisfies Record<string, readonly [axes: string, make: () => Strategy]>;

export type StrategyName = keyof typeof strategies;
export const strategyNames: readonly StrategyName[] = Object.keys(strategies).filter(
  (name): name is StrategyName => Object.hasOwn(strategies, name),
);

/** The mesh of a number of ranks for the axes of a strategy. Tensor parallelism has two ranks beside FSDP. */
export function axesOf(axes: string, ranks: number): readonly MeshAxis[] {
  if (axes !== 'dp × tp') return [{ name: axes, size: ranks }];
  const size = ranks > 1 ? 2 : 1;
  return [
    { name: 'dp', size: ranks / size },
    { name: 'tp', size },
  ];
}

export interface Job {
  readonly model: keyof typeof models;
  readonly strategy: StrategyName;
  /** The folder to load, after the model was made in parts or whole. */
  readonly from: string;
  readonly way: 'fromPretrained' | 'loadPretrained';
  /** The dtype that the parameters are to have, if the model is made of the folder. */
  readonly dtype?: 'bf16' | 'auto';
  /** The folder to save to. */
  readonly to?: string;
}

/** The bytes that this rank has read of the weights, and those that its parts have. */
export interface Read {
  readonly readBytes: number;
  readonly partBytes: number;
}

/** Loads a model on this rank, and saves it. */
export async function load({ size, group, device }: RankInThread, job: Job): Promise<Read> {
  const { model, strategy, from, way, dtype = 'f32', to } = job;
  const [axes, make] = strategies[strategy];
  setRank({ device, mesh: await createMesh(group, axesOf(axes, size)) });
  manualSeed(1);
  let readBytes = 0;
  const folder = counting(diskFolder(from), (bytes) => {
    readBytes += bytes;
  });
  const parallel =
    way === 'fromPretrained'
      ? await fromPretrained(folder, { strategy: make(), dtype })
      : await parallelize(models[model](), make());
  if (way === 'loadPretrained') await loadPretrained(parallel, folder);
  const partBytes = partBytesOf(parallel.module.parameters());
  if (to !== undefined) await savePretrained(parallel, to, { maxShardBytes: 100_000 });
  return { readBytes, partBytes };
}

/** The bytes of what this rank keeps of parameters, without padding. */
export function partBytesOf(parameters: readonly nn.Parameter[]): number {
  return parameters.reduce((sum, { part }) => {
    const isElsewhere =
      part.layout.only !== undefined &&
      currentSession().mesh.coordinate(part.layout.only.axis) !== part.layout.only.rank;
    return isElsewhere ? sum : sum + dtypes[part.dtype].bytes * part.numel;
  }, 0);
}

/** A folder that tells how many bytes of its files are read. */
export function counting(folder: ModelFolder, read: (bytes: number) => void): ModelFolder {
  return {
    ...folder,
    async open(name) {
      const file = await folder.open(name);
      if (file === undefined) return undefined;
      return {
        ...file,
        async read(target, byteOffset) {
          const filled = await file.read(target, byteOffset);
          read(filled);
          return filled;
        },
      };
    },
  };
}
