import { createHash } from 'node:crypto';
import {
  AdamW,
  checkpoint,
  manualSeed,
  type Module,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  constructSharded,
  type CutRule,
  ddp,
  fsdp,
  fullStateDict,
  parallelize,
  zero,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { globalBatch, type Task, taskNames, tasks } from './models.ts';

export const steps = 20;
const settings = { lr: 0.01 };

interface Variant {
  readonly strategy: () => Strategy<Module>;
  readonly microbatches?: number;
  readonly checkpointed?: boolean;
  /** Whether the optimizer is a ZeroRedundancyOptimizer. */
  readonly zeroRedundancy?: boolean;
  /** How the model is built, where no rank builds the whole. */
  readonly construct?: CutRule;
}

export const variants: Readonly<Record<string, Variant>> = {
  DDP: { strategy: () => ddp({ findUnusedParameters: true }) },
  'DDP with a ZeroRedundancyOptimizer': {
    strategy: () => ddp({ findUnusedParameters: true }),
    zeroRedundancy: true,
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
  'ZeRO-1 with accumulation': { strategy: () => zero({ stage: 1 }), microbatches: 3 },
  'ZeRO-2 with accumulation': { strategy: () => zero({ stage: 2 }), microbatches: 3 },
  'FSDP with accumulation': { strategy: () => fsdp(), microbatches: 3 },
  'FSDP of a model that is built in parts': { strategy: () => fsdp(), construct: 'rows' },
  'ZeRO-3 of a model that is built in parts': {
    strategy: () => zero({ stage: 3 }),
    construct: 'flat',
  },
  'FSDP with activation checkpointing': { strategy: () => fsdp(), checkpointed: true },
};

/** How a training went on one rank. */
export const trained = z.object({
  /** Means over this rank's part of each batch. */
  losses: z.array(z.number()),
  /** SHA-256 of all parameters, at the end. */
  hash: z.string(),
});
export type Trained = z.infer<typeof trained>;
export const results = z.record(z.string(), trained);

type Model = Module & { forward(x: Tensor): Tensor };

/** Every task with every variant on this rank. */
export async function main(context: RankContext): Promise<z.infer<typeof results>> {
  await join(context);
  const found: Record<string, Trained> = {};
  for (const [name, variant] of Object.entries(variants)) {
    for (const task of taskNames) {
      found[`${name}: ${task}`] = await train(variant, tasks[task], context);
    }
  }
  return found;
}

async function train(
  { strategy, microbatches = 1, checkpointed = false, zeroRedundancy = false, construct }: Variant,
  task: Task,
  { rank, size }: { readonly rank: number; readonly size: number },
): Promise<Trained> {
  // Rank 0's values must win, but where all ranks must draw the same.
  manualSeed(construct === undefined ? rank : 0);
  const model =
    construct === undefined
      ? task.build()
      : constructSharded(() => task.build(), { rule: construct });
  const parallel = await parallelize(model, strategy());
  const forward = (x: Tensor): Tensor =>
    checkpointed ? checkpoint(() => parallel.forward(x)) : parallel.forward(x);
  const share = globalBatch / size;
  const optimizer = zeroRedundancy
    ? new ZeroRedundancyOptimizer(model.parameters(), AdamW, settings)
    : new AdamW(model.parameters(), settings);
  return run(model, optimizer, (step) => {
    const part = share / microbatches;
    const first = rank * share;
    const losses = Array.from({ length: microbatches }, (_, index) => {
      const pass = (): Tensor => {
        const { x, y } = task.batch(step, first + index * part, first + (index + 1) * part);
        const loss = task.loss(forward(x), y).div(microbatches);
        loss.backward();
        return loss;
      };
      return index === microbatches - 1 ? pass() : parallel.noSync(pass);
    });
    return losses.reduce((sum, loss) => sum.add(loss));
  });
}

/** The same on one rank, without any strategy. */
export async function trainAlone(name: keyof typeof tasks): Promise<Trained> {
  const task: Task = tasks[name];
  manualSeed(0);
  const model = task.build();
  return run(model, new AdamW(model.parameters(), settings), (step) => {
    const { x, y } = task.batch(step, 0, globalBatch);
    const loss = task.loss(model.forward(x), y);
    loss.backward();
    return loss;
  });
}

async function run(
  model: Model,
  optimizer: { zeroGrad(): void; step(): Promise<void> },
  pass: (step: number) => Tensor,
): Promise<Trained> {
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const loss = pass(step);
    await optimizer.step();
    losses.push(await loss.item());
  }
  const hash = createHash('sha256');
  for (const { bytes } of Object.values(await fullStateDict(model))) hash.update(bytes);
  return { losses, hash: hash.digest('hex') };
}
