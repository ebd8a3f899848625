import { manualSeed, type nn, optim, type Strategy, type Tensor } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero, ZeroRedundancyOptimizer } from '@shardwise/strategies';
import { checkpoints } from 'shardwise';
import { globalBatch, type Task, type TaskName, tasks } from './ranks/models.ts';
import { half, type Resharding, type RunHalf } from './resharding.ts';

const strategies = {
  DDP: () => ddp({ findUnusedParameters: true }),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  // This case has an optimizer that shards whole parameters.
  ZeroRedundancyOptimizer: () => ddp({ findUnusedParameters: true }),
} as const satisfies Record<string, () => Strategy>;

type StrategyName = keyof typeof strategies;
export const strategyNames: readonly StrategyName[] = Object.keys(strategies).filter(
  (name): name is StrategyName => Object.hasOwn(strategies, name),
);

/** Half of a training. The first half ends with a save, and the second continues from it. */
interface Job {
  readonly task: TaskName;
  readonly strategy: StrategyName;
}

/** Runs half of a training on this rank. */
export const runHalf: RunHalf<Job> = async ({ rank, size, group }, { task, strategy }, folder) => {
  const { from, to } = folder;
  // The seed differs, so that a value that was not loaded shows.
  manualSeed(from === undefined ? 0 : 1);
  const model = tasks[task].build();
  const parallel = await parallelize(model, strategies[strategy]());
  const groups = groupsOf(model, from !== undefined);
  const settings = { lr: from === undefined ? 0.01 : 1 };
  const optimizer =
    strategy === 'ZeroRedundancyOptimizer'
      ? new ZeroRedundancyOptimizer(groups, optim.AdamW, settings)
      : new optim.AdamW(groups, settings);
  if (from !== undefined) {
    const checkpoint = await checkpoints.load(from);
    await checkpoints.loadModel(checkpoint, model);
    await checkpoints.loadOptimizer(checkpoint, model, optimizer);
  }
  const share = globalBatch / size;
  const part = [rank * share, (rank + 1) * share] as const;
  const first = from === undefined ? 0 : half;
  const stretch = [first, first + half] as const;
  const losses = await train(tasks[task], optimizer, (x) => parallel.forward(x), stretch, part);
  if (to !== undefined) await checkpoints.save(to, { step: half, model, optimizer }, { group });
  return losses;
};

/** Runs both halves on one rank without a strategy or checkpoint. */
export async function trainAlone(name: TaskName): Promise<readonly number[]> {
  manualSeed(0);
  const task: Task = tasks[name];
  const model = task.build();
  const optimizer = new optim.AdamW(groupsOf(model, false), { lr: 0.01 });
  return train(task, optimizer, (x) => model.forward(x), [0, 2 * half], [0, globalBatch]);
}

/** Returns the parameter groups. With `other`, they are in another order, and their settings must be overwritten. */
export function groupsOf(
  model: nn.Module,
  other: boolean,
): { params: Tensor[]; weightDecay: number }[] {
  const parameters = model.parameters();
  const groups = [
    { params: parameters.filter(({ ndim }) => ndim >= 2), weightDecay: other ? 1 : 0.1 },
    { params: parameters.filter(({ ndim }) => ndim < 2), weightDecay: 0 },
  ];
  return other ? groups.toReversed() : groups;
}

async function train(
  task: Task,
  optimizer: Pick<optim.AdamW, 'zeroGrad' | 'step'>,
  forward: (x: Tensor) => Tensor,
  [first, stop]: readonly [number, number],
  [firstItem, stopItem]: readonly [number, number],
): Promise<number[]> {
  const losses: number[] = [];
  for (let step = first; step < stop; step++) {
    optimizer.zeroGrad();
    const { x, y } = task.batch(step, firstItem, stopItem);
    const loss = task.loss(forward(x), y);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

/** The ranks and the strategies with which the two halves of a training run. */
export interface StrategyResharding {
  readonly task: TaskName;
  readonly saved: StrategyName;
  readonly savedOn: number;
  readonly loaded: StrategyName;
  readonly loadedOn: number;
}

export function reshardingOf(each: StrategyResharding): Resharding<Job> {
  const { task, saved, savedOn, loaded, loadedOn } = each;
  return {
    saved: { ranks: savedOn, job: { task, strategy: saved } },
    loaded: { ranks: loadedOn, job: { task, strategy: loaded } },
  };
}
