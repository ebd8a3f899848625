import {
  allReduce,
  manualSeed,
  nn,
  optim,
  ShardwiseError,
  type Strategy,
  type Tensor,
  tensor,
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
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

const strategies: Readonly<Record<string, () => Strategy>> = {
  ddp: () => ddp(),
  'zero 1': () => zero({ stage: 1 }),
  'zero 2': () => zero({ stage: 2 }),
  'zero 3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
  tensorParallel: () =>
    tensorParallel({ '0': colwiseParallel(), '2': rowwiseParallel() }, { axis: 'dp' }),
};

/** What rank 1 does differently from its second step on. */
const differences = [
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

const names = [...Object.keys(strategies), 'pipeline'];

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

interface Observations {
  /** The steps that were made without an error. */
  steps: number;
  error: {
    code: string;
    message: string;
  } | null;
  /** Whether the parameters are as they were before the step that failed. */
  isUnchanged: boolean;
}

async function observe(
  rank: number,
  { strategy, difference, readers }: Training,
): Promise<Observations> {
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
async function apart(rank: number, isDeclared: boolean): Promise<number[]> {
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

interface Training {
  readonly strategy: string;
  readonly difference: (typeof differences)[number];
  /** The ranks that read the loss before the step. */
  readonly readers: readonly number[];
}

const messages = [
  ['lr', 'AdamW.step(): lr is 0.001 on rank 0 and 0.002 on rank 1.'],
  ['lr of a group', 'AdamW.step(): lr'],
  ['weightDecay', 'AdamW.step(): weightDecay is 0.25 on rank 0 and 0.5 on rank 1.'],
  ['betas', 'AdamW.step(): betas is [0.9, 0.999] on rank 0 and [0.9, 0.99] on rank 1.'],
  ['maxNorm', 'clipGradNorm(): maxNorm is 1 on rank 0 and 2 on rank 1.'],
  ['no clipping', 'what it calls is clipGradNorm() on rank 0 and AdamW.step() on rank 1.'],
  ['scale', 'scale is 8 on rank 0 and 4 on rank 1.'],
  ['optimizer', 'what it calls is AdamW.step() on rank 0 and Adam.step() on rank 1.'],
] as const;
const earlyReaders = [[0], [1], [0, 1]] as const;

/** What two ranks see of a training. */
function train(
  strategy: string,
  difference: Training['difference'],
  readers: readonly number[] = [],
): Promise<readonly Observations[]> {
  return onRanks(2, ({ rank }) => observe(rank, { strategy, difference, readers }));
}

describe('a setting that one rank has otherwise', () => {
  it.each(messages)(
    'is the error of that step on all ranks, with ddp: %s',
    async (name, message) => {
      for (const { steps, error, isUnchanged } of await train('ddp', name)) {
        expect(error).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
        expect(error?.message).toContain(message);
        expect({ steps, isUnchanged }).toEqual({ steps: 1, isUnchanged: true });
      }
    },
  );

  it.each(names)('is the error of that step on all ranks, with %s', async (strategy) => {
    for (const { steps, error, isUnchanged } of await train(strategy, 'lr')) {
      expect(error?.message).toContain('AdamW.step(): lr is 0.001 on rank 0 and 0.002 on rank 1.');
      expect(error).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
      expect({ steps, isUnchanged }).toEqual({ steps: 1, isUnchanged: true });
    }
  });

  it('because it forgot to step its scheduler is the error of the step after that', async () => {
    for (const { steps, error } of await train('ddp', 'scheduler')) {
      expect(error?.message).toContain(
        'AdamW.step(): lr is 0.00025 on rank 0 and 0.0005 on rank 1.',
      );
      expect(steps).toBe(2);
    }
  });

  it.each(earlyReaders.map((readers) => [readers]))(
    'is the error of the next step if ranks %s have read the loss before the step',
    async (readers) => {
      for (const { steps, error } of await train('ddp', 'lr', readers)) {
        expect(error).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
        expect(error?.message).toContain(
          'AdamW.step(): lr is 0.001 on rank 0 and 0.002 on rank 1, in a step that was made already.',
        );
        expect(steps).toBe(2);
      }
    },
  );
});

it.each(names)('equal settings are no error, whoever reads early: %s', async (strategy) => {
  for (const readers of [[], [1]]) {
    for (const { steps, error } of await train(strategy, 'nothing', readers)) {
      expect({ steps, error }).toEqual({ steps: 4, error: null });
    }
  }
});

it('ranks that train models of their own, or declare that theirs vary, may have settings of their own', async () => {
  for (const isDeclared of [false, true]) {
    const told = await onRanks(2, ({ rank }) => apart(rank, isDeclared));
    expect(told).toEqual([
      [1, 3, 5],
      [1, 3, 5],
    ]);
  }
});
