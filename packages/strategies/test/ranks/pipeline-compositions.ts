import { createMesh } from '@shardwise/collectives';
import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import {
  allReduce,
  manualSeed,
  type MeshAxis,
  noGrad,
  optim,
  setRank,
  ShardwiseError,
  type Tensor,
  tensor,
} from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  OptimisticOptimizer,
  parallelize,
  pipeline,
  rowwiseParallel,
  tensorParallel,
  type StrategyWithLoss,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { beside } from './beside.ts';
import { Language, languageBatch, languageLoss } from './pipeline-models.ts';

export const trained = z.object({
  /** The losses of each step, and of an evaluation. */
  losses: z.array(z.number()),
  /** The norms of a step's gradients before clipping. */
  norms: z.array(z.number()),
  /** The sum of squares of each whole parameter at the end. */
  parameters: z.array(z.number()),
  /** The number of parameters whose states this rank keeps. */
  held: z.number(),
});

export const compositions = z.record(
  z.string(),
  z.object({ alone: trained.nullable(), parallel: z.union([trained, z.string()]) }),
);

const rows = 8;
const steps = 3;

const layers = {
  'blocks.*.up': colwiseParallel(),
  'blocks.*.down': rowwiseParallel(),
};

export interface CompositionTask {
  readonly axes: readonly MeshAxis[];
  readonly names: readonly string[];
  /** The modules where the model is cut. Default: in the middle. */
  readonly cut?: readonly string[];
  /** Whether ranks make optimizer steps before they know the norm. Default: false. */
  readonly ahead?: boolean;
  /** Whether the head and the embedding share a weight. Default: false. */
  readonly tied?: boolean;
}

export async function main({
  rank,
  world,
  data,
}: RankContext<ThreadsWorld, CompositionTask>): Promise<z.infer<typeof compositions>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const group = joinThreadsWorld(world, rank);
  const mesh = await createMesh(group, data.axes);
  setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
  const sizeOf = (axis: string): number => data.axes.find(({ name }) => name === axis)?.size ?? 1;
  const [shares, tp] = [sizeOf('dp'), sizeOf('tp')];
  const found: z.infer<typeof compositions> = {};
  for (const name of data.names) {
    const stages = pipeline({
      schedule: '1f1b',
      cut: data.cut ?? ['blocks.2'],
      microbatches: 2,
      loss: languageLoss,
    });
    const batch = beside[name];
    const inStages = batch === undefined ? stages : compose(stages, batch());
    const strategy = tp > 1 ? compose(tensorParallel(layers), inStages) : inStages;
    const alone = rank === 0 ? await train(null, 1, 0, { ...data, ahead: false }) : null;
    const place = shares > 1 ? mesh.coordinate('dp') : 0;
    found[name] = {
      alone,
      parallel: await outcomeOf(() => train(strategy, shares, place, data)),
    };
  }
  return found;
}

async function outcomeOf<T>(body: () => Promise<T>): Promise<T | string> {
  try {
    return await body();
  } catch (error) {
    if (ShardwiseError.isInstance(error)) return `${error.code}: ${error.message}`;
    throw error;
  }
}

async function train(
  strategy: StrategyWithLoss<Tensor, [targets: Tensor]> | null,
  shares: number,
  place: number,
  { ahead = false, tied = false }: CompositionTask,
): Promise<z.infer<typeof trained>> {
  manualSeed(7);
  const inner = new Language({ tied });
  const model = strategy === null ? null : await parallelize(inner, strategy);
  const optimizer = new optim.AdamW(inner.parameters(), { lr: 0.01 });
  const optimistic = new OptimisticOptimizer(optimizer, { maxNorm: 0.5 });
  const passes: Tensor[] = [];
  const losses: number[] = [];
  const norms: number[] = [];
  const own = rows / shares;
  const lossOf = (batch: number): Tensor => {
    const { ids, targets } = languageBatch(batch, rows);
    const x = tensor(ids.slice(place * own, (place + 1) * own), 'i32');
    const y = tensor(targets.slice(place * own, (place + 1) * own), 'i32');
    return model === null ? languageLoss(inner.forward(x), y) : model.forward(x, y);
  };
  const backward = (batch: number): Tensor => {
    const loss = lossOf(batch);
    loss.backward();
    return loss;
  };
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    // A step has two batches. The gradients of the first one stay on this rank.
    if (model === null) backward(steps + step);
    else model.noSync(() => backward(steps + step));
    const loss = backward(step);
    if (ahead) {
      await optimistic.step();
      if (step === steps - 1) norms.push((await optimistic.verdict()).norm);
    } else {
      const norm = optim.clipGradNorm(inner.parameters(), 0.5);
      await optimizer.step();
      norms.push(await norm.item());
    }
    passes.push(loss);
    if (!ahead) losses.push(await meanOf(loss, shares).item());
  }
  if (ahead) for (const loss of passes) losses.push(await meanOf(loss, shares).item());
  losses.push(
    await meanOf(
      noGrad(() => lossOf(steps)),
      shares,
    ).item(),
  );
  const state = await inner.stateDict();
  const parameters = Object.values(state).map(({ bytes }) =>
    new Float32Array(bytes.slice().buffer).reduce((sum, value) => sum + value * value, 0),
  );
  const held = inner.parameters().filter((each) => optimizer.stateOf(each) !== undefined).length;
  return { losses, norms, parameters, held };
}

/** Returns the mean over the batches of a step. */
function meanOf(loss: Tensor, shares: number): Tensor {
  if (shares === 1) return loss;
  return noGrad(() => allReduce(loss.detach(), 'dp', { reduce: 'avg' }));
}
