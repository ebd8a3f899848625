import { dist, manualSeed, nn, ones, optim } from 'shardwise';
import { type MemoryModel, type MemoryModelName, memoryModels } from './memory-models.ts';
import { type MemoryStrategyName, strategyOf } from './memory-strategies.ts';

const STEPS = 3;

/** What one rank of the memory benchmark trains. */
export interface MemoryTask {
  readonly model: MemoryModelName;
  readonly strategy: MemoryStrategyName;
  readonly rank: number;
  /** The rows of its batch. Default: those of the model. */
  readonly rows?: number;
}

/** Builds the model of a task, and the strategy that divides it. No rank builds the whole model if the strategy says so. */
export function buildModelOf({ model, strategy }: MemoryTask): {
  readonly model: ReturnType<MemoryModel['build']>;
  readonly strategy: dist.Strategy;
} {
  const { build }: MemoryModel = memoryModels[model];
  const { strategy: makeStrategy, isConstructed = false } = strategyOf(strategy);
  manualSeed(0);
  const made = makeStrategy();
  return { strategy: made, model: isConstructed ? dist.constructSharded(build, made) : build() };
}

/** Trains for some steps, and returns what the allocator of the rank has counted. */
export async function trainForMemory(
  task: MemoryTask,
  { model, strategy }: ReturnType<typeof buildModelOf>,
  afterFirst?: () => Promise<void>,
): Promise<ReturnType<typeof dist.memory>> {
  const { loss: lossOf, rows }: MemoryModel = memoryModels[task.model];
  const parallel = await dist.parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  for (let step = 0; step < STEPS; step++) {
    if (step === 1) await afterFirst?.();
    optimizer.zeroGrad();
    const loss = lossOf((x) => parallel.forward(x), { rows, ...task, step });
    loss.backward();
    await optimizer.step();
    await loss.item();
  }
  return dist.memory({ model, optimizer });
}

/** Trains a small model by the strategy of a task, so that libraries are loaded and code is compiled. */
export async function trainSmallModel({ strategy }: MemoryTask): Promise<void> {
  const model = new nn.Sequential(new nn.Linear(8, 8), new nn.Linear(8, 8));
  const parallel = await dist.parallelize(model, strategyOf(strategy).strategy());
  const optimizer = new optim.AdamW(model.parameters());
  parallel
    .forward(ones([8, 8]))
    .sum()
    .backward();
  await optimizer.step();
}
