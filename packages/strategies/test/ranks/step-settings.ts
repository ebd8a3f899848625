import {
  allReduce,
  manualSeed,
  nn,
  optim,
  ShardwiseError,
  type Strategy,
  tensor,
  type Tensor,
} from '@shardwise/core';
import {
  colwiseParallel,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

export const strategies: Readonly<Record<string, () => Strategy>> = {
  ddp: () => ddp(),
  'zero 1': () => zero({ stage: 1 }),
  'zero 2': () => zero({ stage: 2 }),
  'zero 3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
  tensorParallel: () =>
    tensorParallel({ '0': colwiseParallel(), '2': rowwiseParallel() }, { axis: 'dp' }),
};

/** What rank 1 does differently from its second step on. */
export const differences = [
  'nothing',
  'lr',
  'weightDecay',
  'betas',
  'lr of a group',
  'maxNorm',
  'no clipping',
  'scale',
  'scheduler',
  'optimizer',
] as const;

export const names = [...Object.keys(strategies), 'pipeline'];

const lossOf = (output: Tensor): Tensor => output.square().mean();

/** Returns the loss of a batch as a strategy computes it. */
async function losses(model: nn.Sequential, strategy: string): Promise<(batch: Tensor) => Tensor> {
  if (strategy === 'pipeline') {
    const options = { axis: 'dp', microbatches: 2, cut: ['2'], loss: lossOf };
    const stages = await parallelize(model, pipeline({ ...options, schedule: 'gpipe' }));
    return (batch) => stages.forward(batch);
  }
  const parallel = await parallelize(model, strategies[strategy]?.() ?? ddp());
  return (batch) => lossOf(parallel.forward(batch));
}

const task = z.object({
  strategy: z.string(),
  difference: z.enum(differences),
  /** The ranks that read the loss before the step. */
  readers: z.array(z.number()),
});

export const observations = z.object({
  /** The steps that were made without an error. */
  steps: z.number(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  /** Whether the parameters are as they were before the step that failed. */
  isUnchanged: z.boolean(),
});

export async function main(context: RankContext): Promise<z.infer<typeof observations>> {
  const { rank } = context;
  await join(context, 'interpreter');
  const { strategy, difference, readers } = task.parse(context.data);
  const differs = rank === 1;
  manualSeed(0);
  const model = new nn.Sequential(new nn.Linear(4, 4), new nn.Tanh(), new nn.Linear(4, 4));
  const forward = await losses(model, strategy);
  const [first, ...others] = model.parameters();
  if (first === undefined) throw new RangeError('a model without parameters');
  const groups = [{ params: [first] }, { params: others }];
  const options = { lr: 0.001, weightDecay: 0.25 };
  const adamW = new optim.AdamW(groups, options);
  const adam = new optim.Adam(model.parameters(), options);
  const scheduler = new optim.LearningRateScheduler(adamW, optim.exponentialSchedule(0.5));
  const scaler = new optim.LossScaler(8);
  const otherScaler = new optim.LossScaler(4);
  let steps = 0;
  let before: number[] = [];
  const held = (): Tensor[] => {
    const parts = model.parameters().map(({ part }) => part);
    return parts.filter(({ layout }) => layout.only === undefined || layout.only.rank === rank);
  };
  const valuesNow = async (): Promise<number[]> => {
    const values: number[] = [];
    for (const part of held()) values.push(...Array.from(await part.data(), Number));
    return values;
  };
  try {
    for (; steps < 4; steps++) {
      const isOther = differs && steps > 0;
      if (isOther) change(adamW, difference);
      adamW.zeroGrad();
      before = await valuesNow();
      const x = tensor([
        [1, 2, 0, 3],
        [2, 1, steps, 0],
      ]);
      const loss = forward(x);
      const own = isOther && difference === 'scale' ? otherScaler : scaler;
      (difference === 'scale' ? own.scale(loss) : loss).backward();
      if (readers.includes(rank)) await loss.item();
      if (difference === 'scale') own.unscale(adamW);
      if (!isOther || difference !== 'no clipping') {
        optim.clipGradNorm(model.parameters(), isOther && difference === 'maxNorm' ? 2 : 1);
      }
      const optimizer = isOther && difference === 'optimizer' ? adam : adamW;
      if (difference === 'scale') {
        await own.step(adamW);
        own.update();
      } else await optimizer.step();
      if (difference === 'scheduler' && !isOther) scheduler.step();
    }
    return { steps, error: null, isUnchanged: false };
  } catch (error) {
    if (!ShardwiseError.isInstance(error)) throw error;
    const after = await valuesNow();
    return {
      steps,
      error: { code: error.code, message: error.message },
      isUnchanged: after.join() === before.join(),
    };
  }
}

function change({ paramGroups }: optim.AdamW, difference: (typeof differences)[number]): void {
  for (const [index, group] of paramGroups.entries()) {
    if (difference === 'lr') group.lr = 0.002;
    if (difference === 'lr of a group' && index === 1) group.lr = 0.002;
    if (difference === 'weightDecay') group.weightDecay = 0.5;
    if (difference === 'betas') group.betas = [0.9, 0.99];
  }
}

/** Each rank trains a model of its own with a learning rate of its own, and they tell each other a number each step. */
export async function apart(context: RankContext): Promise<number[]> {
  const { rank } = context;
  await join(context, 'interpreter');
  const isDeclared = z.boolean().parse(context.data);
  const model = new nn.Linear(2, 2);
  if (isDeclared) for (const parameter of model.parameters()) parameter.markVarying(['dp']);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 * (1 + rank) });
  const told: number[] = [];
  for (let step = 0; step < 3; step++) {
    optimizer.zeroGrad();
    lossOf(model.forward(tensor([[1, 2]]))).backward();
    await optimizer.step();
    told.push(await allReduce(tensor(rank + step), 'dp').item());
  }
  return told;
}
