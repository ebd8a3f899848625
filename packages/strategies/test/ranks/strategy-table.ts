import { createHash } from 'node:crypto';
import {
  broadcast,
  hostPages,
  manualSeed,
  nn,
  optim,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  OffloadedOptimizer,
  ZeroRedundancyOptimizer,
  constructSharded,
  dataParallel,
  ddp,
  fsdp,
  parallelize,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { gridOf } from './grid.ts';
import { globalBatch, type Task, taskNames, tasks } from './models.ts';

const settings = { lr: 0.01 };

export interface Variant {
  readonly strategy: () => Strategy;
  readonly microbatches?: number;
  readonly checkpointed?: boolean | nn.CheckpointOptions;
  /** Whether the optimizer is a ZeroRedundancyOptimizer. */
  readonly zeroRedundancy?: boolean;
  /** Whether rank 0 has the batch of all ranks. Only rank 0 has a loss then. */
  readonly hasMaster?: boolean;
  /** The size of a second mesh axis. */
  readonly replicas?: number;
  /** The number of ranks that the world must have. */
  readonly ranks?: number;
  /** What an OffloadedOptimizer keeps in host memory in addition to states. */
  readonly offloaded?: readonly ('parameters' | 'gradients')[];
  /** Whether the model is built in parts, so that no rank builds all of it. */
  readonly isConstructed?: true;
}

export const variants: Readonly<Record<string, Variant>> = {
  DDP: { strategy: () => ddp({ findUnusedParameters: true }) },
  'DDP with a ZeroRedundancyOptimizer': {
    strategy: () => ddp({ findUnusedParameters: true }),
    zeroRedundancy: true,
  },
  'DDP of a static graph, in buckets of one parameter': {
    strategy: () => ddp({ staticGraph: true, bucketBytes: 1 }),
  },
  'DDP that divides before and after the sum': {
    strategy: () => ddp({ findUnusedParameters: true, gradientPredivideFactor: 2 }),
  },
  DataParallel: { strategy: () => dataParallel(), hasMaster: true },
  'DataParallel with accumulation': {
    strategy: () => dataParallel(),
    hasMaster: true,
    microbatches: 3,
  },
  'ZeRO-1': { strategy: () => zero({ stage: 1 }) },
  'ZeRO-2': { strategy: () => zero({ stage: 2 }) },
  'ZeRO-2 in buckets of one parameter': { strategy: () => zero({ stage: 2, bucketBytes: 1 }) },
  'ZeRO-3': { strategy: () => zero({ stage: 3 }) },
  FSDP: { strategy: () => fsdp() },
  'FSDP that keeps parameters until backward': {
    strategy: () => fsdp({ reshardAfterForward: false }),
  },
  'FSDP that reshards everything, without prefetch': {
    strategy: () => fsdp({ reshardAfterForward: true, prefetch: 0 }),
  },
  'FSDP that collects from two neighbours in backward': {
    strategy: () => fsdp({ reshardAfterForward: 2 }),
    ranks: 4,
  },
  'FSDP in two replicas': {
    strategy: () => fsdp({ replicas: 'replicas' }),
    replicas: 2,
    ranks: 4,
  },
  'FSDP in two replicas of one rank': {
    strategy: () => fsdp({ replicas: 'replicas' }),
    replicas: 2,
    ranks: 2,
  },
  'FSDP with states and parameters in host memory': {
    strategy: () => fsdp({ pages: hostPages() }),
    offloaded: ['parameters'],
  },
  'FSDP with everything in host memory, with accumulation': {
    strategy: () => fsdp({ pages: hostPages() }),
    offloaded: ['parameters', 'gradients'],
    microbatches: 3,
  },
  'ZeRO-1 with states in host memory': {
    strategy: () => zero({ stage: 1 }),
    offloaded: [],
  },
  'ZeRO-1 with states and gradients in host memory, with accumulation': {
    strategy: () => zero({ stage: 1 }),
    offloaded: ['gradients'],
    microbatches: 3,
  },
  'ZeRO-2 with states and gradients in host memory': {
    strategy: () => zero({ stage: 2 }),
    offloaded: ['gradients'],
  },
  'DDP with states and gradients in host memory': {
    strategy: () => ddp({ findUnusedParameters: true }),
    offloaded: ['gradients'],
  },
  'DDP with accumulation': {
    strategy: () => ddp({ findUnusedParameters: true }),
    microbatches: 3,
  },
  'ZeRO-1 with accumulation': { strategy: () => zero({ stage: 1 }), microbatches: 3 },
  'ZeRO-2 with accumulation': { strategy: () => zero({ stage: 2 }), microbatches: 3 },
  'ZeRO-3 with accumulation': { strategy: () => zero({ stage: 3 }), microbatches: 3 },
  'FSDP with accumulation': { strategy: () => fsdp(), microbatches: 3 },
  'FSDP of a model that is built in parts': { strategy: () => fsdp(), isConstructed: true },
  'ZeRO-3 of a model that is built in parts': {
    strategy: () => zero({ stage: 3 }),
    isConstructed: true,
  },
  'ZeRO-2 with activation checkpointing': {
    strategy: () => zero({ stage: 2 }),
    checkpointed: true,
  },
  'FSDP with activation checkpointing': { strategy: () => fsdp(), checkpointed: true },
  'FSDP with activation checkpointing to host memory': {
    strategy: () => fsdp(),
    checkpointed: { policy: nn.offloadProducts, pages: hostPages() },
  },
};

/** The results of a training on one rank. */
export const trained = z.object({
  /** The mean losses of this rank's part of each batch. */
  losses: z.array(z.number()),
  /** The SHA-256 of all parameters at the end. */
  hash: z.string(),
});
export type Trained = z.infer<typeof trained>;
export const results = z.record(z.string(), trained);

type Model = nn.Module & { forward(x: Tensor): Tensor };

/** Trains every task with every variant on this rank. The data is the number of steps. */
export async function main(context: RankContext): Promise<z.infer<typeof results>> {
  const steps = z.number().parse(context.data);
  const { group, mesh: line } = await join(context);
  const { backend: device } = currentSession();
  const found: Record<string, Trained> = {};
  for (const [name, variant] of Object.entries(variants)) {
    const { ranks = context.size, replicas } = variant;
    if (ranks !== context.size) continue;
    setRank({ device, mesh: replicas === undefined ? line : await gridOf(group, replicas) });
    for (const task of taskNames) {
      found[`${name}: ${task}`] = await train(variant, tasks[task], context, steps);
    }
  }
  return found;
}

export async function train(
  variant: Variant,
  task: Task,
  { rank, size }: { readonly rank: number; readonly size: number },
  steps: number,
): Promise<Trained> {
  const { strategy, microbatches = 1, checkpointed = false, isConstructed = false } = variant;
  const { zeroRedundancy = false, hasMaster = false, offloaded } = variant;
  // The ranks start with different values, and rank 0's must be used. A model that is built in parts needs the same
  // seed on all ranks.
  manualSeed(isConstructed ? 0 : rank);
  const own = strategy();
  const model = isConstructed ? constructSharded(() => task.build(), own) : task.build();
  const parallel = await parallelize(model, own);
  const forward = (x: Tensor): Tensor =>
    checkpointed === false
      ? parallel.forward(x)
      : nn.checkpoint(() => parallel.forward(x), checkpointed === true ? {} : checkpointed);
  const share = hasMaster ? globalBatch : globalBatch / size;
  const optimizer = zeroRedundancy
    ? new ZeroRedundancyOptimizer(model.parameters(), optim.AdamW, settings)
    : offloaded === undefined
      ? new optim.AdamW(model.parameters(), settings)
      : new OffloadedOptimizer(model, new optim.AdamW(model.parameters(), settings), {
          states: hostPages(),
          ...Object.fromEntries(offloaded.map((each) => [each, hostPages()])),
          chunkBytes: 256,
        });
  const takeStep = (step: number): Tensor => {
    const part = share / microbatches;
    const first = hasMaster ? 0 : rank * share;
    const losses = Array.from({ length: microbatches }, (_, index) => {
      const pass = (): Tensor => {
        const { x, y } = task.batch(step, first + index * part, first + (index + 1) * part);
        const loss = task.loss(forward(x), y).div(microbatches);
        loss.backward();
        return loss;
      };
      return index === microbatches - 1 ? pass() : parallel.noSync(pass);
    });
    const loss = losses.reduce((sum, each) => sum.add(each));
    return hasMaster ? broadcast(loss.detach(), 'dp') : loss;
  };
  const finish = (): void => {
    if (hasMaster) parallel.replicate();
  };
  return run(model, optimizer, steps, takeStep, finish);
}

/** Trains the same task on one rank without a strategy. */
export async function trainAlone(name: keyof typeof tasks, steps: number): Promise<Trained> {
  const task: Task = tasks[name];
  manualSeed(0);
  const model = task.build();
  return run(model, new optim.AdamW(model.parameters(), settings), steps, (step) => {
    const { x, y } = task.batch(step, 0, globalBatch);
    const loss = task.loss(model.forward(x), y);
    loss.backward();
    return loss;
  });
}

async function run(
  model: Model,
  optimizer: { zeroGrad(): void; step(): Promise<boolean> },
  steps: number,
  pass: (step: number) => Tensor,
  finish: () => void = () => {},
): Promise<Trained> {
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const loss = pass(step);
    await optimizer.step();
    losses.push(await loss.item());
  }
  finish();
  const hash = createHash('sha256');
  for (const { bytes } of Object.values(await model.stateDict())) hash.update(bytes);
  return { losses, hash: hash.digest('hex') };
}
