import { cpu } from '@shardwise/backend-cpu';
import { createMesh, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import {
  allReduce,
  manualSeed,
  type MeshAxis,
  noGrad,
  optim,
  setRank,
  ShardwiseError,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { elementCount, type HostArray, isHeldAt, ownPlace } from '@shardwise/core/extend';
import {
  adapterFiles,
  addLora,
  loadAdapter,
  type LoraOptions,
  mergeLora,
  quantizeModel,
  unmergeLora,
} from '@shardwise/models';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  memory,
  parallelize,
  pipeline,
  rowwiseParallel,
  type StrategyWithLoss,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import {
  type LanguageBatch,
  languageBatch,
  languageLoss,
  SmallLanguage,
} from '../small-language.ts';

const steps = 3;
const rows = 8;

const byLayer = tensorParallel({
  'layers.*.up_proj': colwiseParallel(),
  'layers.*.down_proj': rowwiseParallel(),
});
const inStages = pipeline({ cut: ['layers.2'], microbatches: 2, loss: languageLoss });

/** Makes the model parallel. Returns its loss as a function of a batch. */
type Parallelize = (model: SmallLanguage) => Promise<LossOf>;
type LossOf = (batch: LanguageBatch) => Tensor;

interface Case {
  readonly axes: readonly string[];
  readonly parallelize: Parallelize;
}

function over(axes: readonly string[], strategy: () => Strategy): Case {
  return {
    axes,
    parallelize: async (model) => {
      const parallel = await parallelize(model, strategy());
      return ({ ids, targets }) => languageLoss(parallel.forward(ids), targets);
    },
  };
}

function withStages(
  axes: readonly string[],
  strategy: () => StrategyWithLoss<Tensor, [targets: Tensor]>,
): Case {
  return {
    axes,
    parallelize: async (model) => {
      const parallel = await parallelize(model, strategy());
      return ({ ids, targets }) => parallel.forward(ids, targets);
    },
  };
}

export const cases: Readonly<Record<string, Case>> = {
  DDP: over(['dp'], () => ddp()),
  'ZeRO-1': over(['dp'], () => zero({ stage: 1 })),
  'ZeRO-2': over(['dp'], () => zero({ stage: 2 })),
  'ZeRO-3': over(['dp'], () => zero({ stage: 3 })),
  FSDP: over(['dp'], () => fsdp()),
  'tensor parallelism': over(['tp'], () => byLayer),
  'a pipeline': withStages(['pp'], () => inStages),
  'tensor parallelism beside FSDP': over(['dp', 'tp'], () => compose(byLayer, fsdp())),
  'a pipeline beside FSDP': withStages(['pp', 'dp'], () => compose(inStages, fsdp())),
};

export const adapters: Readonly<Record<string, Partial<LoraOptions>>> = {
  LoRA: {},
  DoRA: { useDora: true, useRslora: true },
};

export const outcome = z.object({
  losses: z.array(z.number()),
  /** The loss after mergeLora, and the one after unmergeLora. */
  mergedLoss: z.number(),
  unmergedLoss: z.number(),
  /** The loss after B was set to zero, and the one after the adapter was loaded from what was saved before. */
  forgottenLoss: z.number(),
  loadedLoss: z.number(),
  /** The trained parameters, whole. */
  trained: z.record(z.string(), z.array(z.number())),
  /** The names of parameters that are frozen and have changed. */
  changed: z.array(z.string()),
  gradientBytes: z.number(),
  optimizerBytes: z.number(),
  /** The bytes of the parts of trained parameters that this rank has. */
  trainedBytes: z.number(),
});
export type Outcome = z.infer<typeof outcome>;
export const outcomes = z.record(z.string(), z.union([outcome, z.string()]));

export interface LoraTask {
  readonly axes: readonly MeshAxis[];
  readonly names: readonly string[];
  /** The dtype of the frozen weights. */
  readonly dtype: 'f32' | 'bf16' | 'nf4';
}

export async function main({
  rank,
  world,
  data,
}: RankContext<ThreadsWorld, LoraTask>): Promise<z.infer<typeof outcomes>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const mesh = await createMesh(joinThreadsWorld(world, rank), data.axes);
  setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
  const shares = data.axes.find(({ name }) => name === 'dp')?.size ?? 1;
  const place = shares > 1 ? mesh.coordinate('dp') : 0;
  const found: z.infer<typeof outcomes> = {};
  for (const name of data.names) {
    for (const [adapter, options] of Object.entries(adapters)) {
      found[`${adapter} under ${name}`] = await outcomeOf(() =>
        train({ parallelize: cases[name]?.parallelize, options, shares, place, ...data }),
      );
    }
  }
  return found;
}

async function outcomeOf(body: () => Promise<Outcome>): Promise<Outcome | string> {
  try {
    return await body();
  } catch (error) {
    if (ShardwiseError.isInstance(error)) return `${error.code}: ${error.message}`;
    throw error;
  }
}

interface Training {
  /** Default: one rank trains the model itself. */
  readonly parallelize?: Parallelize | undefined;
  readonly options: Partial<LoraOptions>;
  readonly dtype: 'f32' | 'bf16' | 'nf4';
  readonly shares: number;
  readonly place: number;
}

/** Trains the adapters of a small model for a few steps. */
export async function train(training: Training): Promise<Outcome> {
  const { options, dtype, shares, place } = training;
  manualSeed(7);
  // Rows of 64 and 128 elements are whole blocks.
  const model =
    dtype === 'nf4' ? new SmallLanguage({ width: 64, hidden: 128 }) : new SmallLanguage();
  if (dtype === 'bf16') await model.to('bf16');
  if (dtype === 'nf4') await quantizeModel(model, { targetModules: ['up_proj', 'down_proj'] });
  addLora(model, { rank: 2, alpha: 6, targetModules: ['up_proj', 'down_proj'], ...options });
  const before = await model.stateDict();
  const lossOf = (await training.parallelize?.(model)) ?? lossAlone(model);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.05, momentum: 0.9 });
  const own = rows / shares;
  const batchOf = (step: number): LanguageBatch =>
    languageBatch(step, place * own, (place + 1) * own);
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const loss = lossOf(batchOf(step));
    loss.backward();
    await optimizer.step();
    losses.push(await meanOf(loss, shares).item());
  }
  const { gradientBytes, optimizerBytes } = memory({ model, optimizer });
  const evaluate = (): Promise<number> =>
    meanOf(
      noGrad(() => lossOf(batchOf(steps))),
      shares,
    ).item();
  losses.push(await evaluate());
  const canMerge = dtype !== 'nf4';
  if (canMerge) await mergeLora(model);
  const mergedLoss = await evaluate();
  if (canMerge) await unmergeLora(model);
  const unmergedLoss = await evaluate();
  const files = await adapterFiles(model);
  for (const [name, parameter] of model.namedParameters()) {
    if (name.endsWith('lora_B.weight') && isHeldAt(parameter.part.layout, ownPlace)) {
      noGrad(() => parameter.part.assign(parameter.part.mul(0)));
    }
  }
  const forgottenLoss = await evaluate();
  await loadAdapter(model, files);
  const loadedLoss = await evaluate();
  const state = await model.stateDict();
  const parameters = model.namedParameters();
  const trainedNames = parameters.flatMap(([name, { requiresGrad }]) => (requiresGrad ? name : []));
  return {
    losses,
    mergedLoss,
    unmergedLoss,
    forgottenLoss,
    loadedLoss,
    trained: Object.fromEntries(trainedNames.map((name) => [name, [...floatsOf(state[name])]])),
    changed: Object.keys(before).filter(
      (name) =>
        !trainedNames.includes(name) && differ(floatsOf(before[name]), floatsOf(state[name])),
    ),
    gradientBytes,
    optimizerBytes,
    trainedBytes: parameters
      .filter(([, { requiresGrad, part }]) => requiresGrad && isHeldAt(part.layout, ownPlace))
      .reduce((sum, [, { part }]) => sum + elementCount(part.shape) * 4, 0),
  };
}

function lossAlone(model: SmallLanguage): LossOf {
  return ({ ids, targets }) => languageLoss(model.forward(ids), targets);
}

/** Returns the mean over the batches of a step. */
function meanOf(loss: Tensor, shares: number): Tensor {
  if (shares === 1) return loss;
  return noGrad(() => allReduce(loss.detach(), 'dp', { reduce: 'avg' }));
}

function floatsOf(array: HostArray | undefined): readonly number[] {
  if (array === undefined) return [];
  const { buffer } = array.bytes.slice();
  if (array.dtype === 'u8') return [...array.bytes];
  if (array.dtype === 'f32') return [...new Float32Array(buffer)];
  const high = new Uint16Array(buffer);
  return [...new Float32Array(Uint32Array.from(high, (bits) => bits * 2 ** 16).buffer)];
}

/** Whether frozen values differ by more than what merging them and back may round. */
function differ(before: readonly number[], after: readonly number[]): boolean {
  return before.some((value, index) => Math.abs(value - (after[index] ?? NaN)) > 0.02);
}
