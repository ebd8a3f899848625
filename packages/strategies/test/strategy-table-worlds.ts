import { readFileSync } from 'node:fs';
import {
  broadcast,
  hostPages,
  manualSeed,
  nn,
  optim,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  constructSharded,
  dataParallel,
  ddp,
  fsdp,
  OffloadedOptimizer,
  parallelize,
  zero,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { hashOf } from '../../../test/support/model-values.ts';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { meanOverRanks, oncePerKey } from './as-one-rank.ts';
import { globalBatch, type Task, type TaskName, taskNames, tasks } from './ranks/models.ts';
import { stepCounts } from './ranks/step-counts.ts';

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
  /** The relative tolerance of losses. Default: that of sums in another order. */
  readonly tolerance?: number;
}

/** Variants with f32. */
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
interface Trained {
  /** The mean losses of this rank's part of each batch. */
  losses: number[];
  /** The SHA-256 of all parameters at the end. */
  hash: string;
}
type Model = nn.Module & { forward(x: Tensor): Tensor };

async function train(
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
async function trainAlone(name: TaskName, steps: number): Promise<Trained> {
  const task: Task = tasks[name];
  manualSeed(0);
  const model = task.build();
  const optimizer = new optim.AdamW(model.parameters(), settings);
  return run(model, optimizer, steps, (step) => {
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
  return { losses, hash: await hashOf(model) };
}

/** The relative tolerance for sums that were added in another order. */
const TOLERANCE = 1e-5;

/** The losses of each step by task (tools/golden-strategy-table.py). */
const pytorch = z
  .object({ losses: z.record(z.string(), z.array(z.number()).length(stepCounts.many)) })
  .parse(JSON.parse(readFileSync(new URL('golden/strategy-table.json', import.meta.url), 'utf8')));

/** What a table trains: each variant has so many of the tasks. */
interface Table {
  readonly steps: number;
  /** Default: all. */
  readonly tasksOfVariant?: number;
}

/** Adds the tests of variants in worlds of these sizes. */
export function testStrategyTable(
  variants: Readonly<Record<string, Variant>>,
  sizes: readonly number[],
  { steps, tasksOfVariant = taskNames.length }: Table,
): void {
  const alone = oncePerKey((task: TaskName) => trainAlone(task, steps), onCpu);

  it.each(taskNames)('one rank trains %s as PyTorch does', async (task) => {
    const { losses } = await alone(task);
    expect(losses).toHaveLength(steps);
    const expected = pytorch.losses[task]?.slice(0, steps) ?? [];
    assertAllclose(losses, expected, { rtol: TOLERANCE, atol: 0 });
  });

  describe.each(sizes)('on %i ranks', (size) => {
    const possible = Object.entries(variants).filter(([, { ranks: only = size }]) => only === size);

    describe.each(possible.map((each, row) => [...each, row] as const))('%s', (_, variant, row) => {
      const { replicas = 1, tolerance = TOLERANCE } = variant;
      const axes = [
        { name: 'replicas', size: replicas },
        { name: 'dp', size: size / replicas },
      ].slice(variant.replicas === undefined ? 1 : 0);

      it.each(someForRow({ row, rows: possible.length }, taskNames, tasksOfVariant))(
        'trains %s as one rank and as PyTorch do, with the same bits on every rank',
        async (task) => {
          const each = await onRanks(size, (place) => train(variant, tasks[task], place, steps), {
            ...onCpu,
            axes,
          });
          const means = meanOverRanks(each.map(({ losses }) => losses));
          expect(means).toHaveLength(steps);
          for (const losses of [(await alone(task)).losses, pytorch.losses[task] ?? []]) {
            assertAllclose(means, losses.slice(0, steps), { rtol: tolerance, atol: 0 });
          }
          expect(new Set(each.map(({ hash }) => hash)).size).toBe(1);
        },
      );
    });
  });
}
