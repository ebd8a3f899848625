import {
  CollectiveMismatchError,
  fromData,
  manualSeed,
  nn,
  noGrad,
  ones,
  optim,
  ShardwiseError,
  statistics,
  type Strategy,
  subscribe,
  type Tensor,
  type TimelineEvent,
} from '@shardwise/core';
import {
  type PlannedModel,
  collectivesOf,
  ddp,
  fsdp,
  parallelize,
  planFor,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

const numbers = z.array(z.number());

/** The observations of one rank. */
export const observations = z.object({
  /** The parameters and buffers after `create`. */
  initial: z.record(z.string(), numbers),
  /** The running mean that a forward pass used, and the one that it left. */
  buffers: z.record(z.string(), z.object({ used: numbers, left: numbers })),
  /**
   * The numbers of collectives in the forward passes of two epochs: of two training passes, then of the first
   * evaluation and of the most of any later one.
   */
  evaluations: z.array(z.object({ training: numbers, evaluation: numbers })),
  /** The collectives of one step, with and without noSync, and those in the plan. */
  traffic: z.object({
    planned: z.object({ collectives: z.number(), bytes: z.number() }),
    counted: z.object({ collectives: z.number(), bytes: z.number() }),
    inNoSync: z.number(),
  }),
  /** The events of a backward pass, in the order in which they began. */
  timeline: z.array(z.enum(['compute', 'collective'])),
  /** The plans made and the programs compiled up to each step. */
  made: z.array(z.object({ plans: z.number(), programs: z.number() })),
  /** The same counts for a model in parts. */
  madeInParts: z.array(z.object({ plans: z.number(), programs: z.number() })),
  /** The error of `create` if models differ. */
  mismatches: z.record(
    z.string(),
    z.object({
      name: z.string(),
      code: z.string(),
      message: z.string(),
      fields: z.record(z.string(), z.unknown()),
    }),
  ),
});

export type Observations = z.infer<typeof observations>;

/** Keeps a running mean of its inputs, as batch normalisation does. */
class RunningMean extends nn.Module {
  readonly mean: nn.BufferTensor;
  readonly steps = new nn.BufferTensor(Int32Array.of(0), [], { dtype: 'i32' });
  readonly linear = new nn.Linear(2, 3);

  constructor(start: number) {
    super();
    this.mean = new nn.BufferTensor(Float32Array.of(start, -start), [2]);
  }

  /** Shape: x [B, 2] -> [B, 3]. */
  forward(x: Tensor): Tensor {
    const y = this.linear.forward(x.sub(this.mean));
    if (this.training) {
      noGrad(() => {
        this.mean.assign(this.mean.add(x.mean(0)));
        this.steps.assign(this.steps.add(1));
      });
    }
    return y;
  }
}

/** The parameters are multiples of 64-byte lines, so messages have no gaps. */
class Deep extends nn.Module {
  readonly first = new nn.Linear(16, 32);
  readonly norm = new nn.LayerNorm(32);
  readonly second = new nn.Linear(32, 16);
  readonly third = new nn.Linear(16, 16);

  /** Shape: x [B, 16] -> [B, 16]. */
  forward(x: Tensor): Tensor {
    return this.third.forward(this.second.forward(this.norm.forward(this.first.forward(x))).relu());
  }
}

async function valuesOf(model: nn.Module): Promise<Record<string, number[]>> {
  const values: Record<string, number[]> = {};
  for (const [name, tensor] of [...model.namedParameters(), ...model.namedBuffers()])
    values[name] = Array.from(await tensor.data(), Number);
  return values;
}

async function initial(rank: number): Promise<Observations['initial']> {
  manualSeed(rank);
  const parallel = await parallelize(new RunningMean(rank + 1), ddp());
  return valuesOf(parallel.module);
}

async function buffers(rank: number): Promise<Observations['buffers']> {
  const seen: Observations['buffers'] = {};
  const pass = async (
    name: string,
    broadcastBuffers: boolean,
    run: (parallel: PlannedModel<RunningMean, [Tensor], Tensor>) => Tensor,
  ): Promise<void> => {
    const model = new RunningMean(0);
    const parallel = await parallelize(model, ddp({ broadcastBuffers }));
    model.mean.assign(fromData(Float32Array.of(10 + rank, rank), [2], 'f32'));
    const y = run(parallel);
    // y = (x - used) wᵀ + b. x is all ones, and the weight picks both elements.
    const used = (await y.data()).slice(0, 2);
    seen[name] = {
      used: Array.from(used, Number),
      left: Array.from(await model.mean.data(), Number),
    };
  };
  const x = ones([4, 2]);
  const readable = (model: RunningMean): void => {
    model.linear.weight.assign(fromData(Float32Array.of(-1, 0, 0, -1, 0, 0), [3, 2], 'f32'));
    model.linear.bias?.assign(fromData(Float32Array.of(1, 1, 0), [3], 'f32'));
  };
  const forward = (parallel: PlannedModel<RunningMean, [Tensor], Tensor>): Tensor => {
    readable(parallel.module);
    return parallel.forward(x);
  };
  await pass('training', true, forward);
  await pass('twice', true, (parallel) => {
    forward(parallel);
    return parallel.forward(x);
  });
  await pass('evaluation', true, (parallel) => {
    parallel.module.eval();
    return noGrad(() => forward(parallel));
  });
  await pass('evaluation inside noSync', true, (parallel) => {
    parallel.module.eval();
    return parallel.noSync(() => forward(parallel));
  });
  await pass('noSync', true, (parallel) => parallel.noSync(() => forward(parallel)));
  await pass('broadcastBuffers: false', false, forward);
  await pass('evaluation with broadcastBuffers: false', false, (parallel) => {
    parallel.module.eval();
    return forward(parallel);
  });
  return seen;
}

/**
 * Counts the collectives of forward passes: two that train, then evaluations. Rank r makes r more evaluations than rank
 * 0.
 */
async function evaluations(rank: number): Promise<Observations['evaluations']> {
  const model = new RunningMean(0);
  const parallel = await parallelize(model, ddp());
  const pass = async (): Promise<number> => {
    const before = statistics().collectives;
    await noGrad(() => parallel.forward(ones([4, 2]))).data();
    return statistics().collectives - before;
  };
  const counted: Observations['evaluations'] = [];
  for (let epoch = 0; epoch < 2; epoch++) {
    model.train();
    const training = [await pass(), await pass()];
    model.eval();
    const first = await pass();
    const others: number[] = [];
    for (let batch = 0; batch <= rank; batch++) others.push(await pass());
    counted.push({ training, evaluation: [first, Math.max(...others)] });
  }
  return counted;
}

async function traffic(): Promise<Observations['traffic']> {
  const model = new Deep();
  const options = { bucketBytes: 1024 };
  const parallel = await parallelize(model, ddp(options));
  const backward = (): Tensor => {
    const loss = parallel.forward(ones([2, 16])).sum();
    loss.backward();
    return loss;
  };
  const count = async (build: () => Tensor): Promise<{ collectives: number; bytes: number }> => {
    const before = statistics();
    await build().item();
    const after = statistics();
    return {
      collectives: after.collectives - before.collectives,
      bytes: after.collectiveBytes - before.collectiveBytes,
    };
  };
  // The first pass also exchanges the order in which gradients arrived.
  await count(backward);
  const counted = await count(backward);
  const planned = collectivesOf(planFor(model, ddp(options))).filter(
    ({ when }) => when === 'backward',
  );
  const { collectives: inNoSync } = await count(() => parallel.noSync(backward));
  return {
    planned: {
      collectives: planned.length,
      bytes: planned.reduce((sum, { bytes }) => sum + bytes, 0),
    },
    counted,
    inNoSync,
  };
}

async function timeline(): Promise<Observations['timeline']> {
  const parallel = await parallelize(new Deep(), ddp({ bucketBytes: 1024 }));
  const pass = async (): Promise<void> => {
    const loss = parallel.forward(ones([2, 16])).sum();
    loss.backward();
    await loss.item();
  };
  await pass();
  const events: TimelineEvent[] = [];
  const unsubscribe = subscribe((event) => events.push(event));
  await pass();
  unsubscribe();
  return events
    .toSorted((a, b) => a.startMs - b.startMs)
    .flatMap(({ category }) =>
      category === 'compute' || category === 'collective' ? [category] : [],
    );
}

async function made(
  strategy: Strategy,
  optimizerOf: (parameters: nn.Parameter[]) => optim.Optimizer,
): Promise<Observations['made']> {
  const parallel = await parallelize(new Deep(), strategy);
  const optimizer = optimizerOf(parallel.module.parameters());
  const counts: Observations['made'] = [];
  for (let step = 0; step < 6; step++) {
    optimizer.zeroGrad();
    const loss = parallel.forward(fromData(new Float32Array(32).fill(step), [2, 16], 'f32')).sum();
    loss.backward();
    await optimizer.step();
    await loss.item();
    const { plansMade, programsCompiled } = statistics();
    counts.push({ plans: plansMade, programs: programsCompiled });
  }
  return counts;
}

/** Returns the errors of models that differ on the last rank. */
async function mismatches(rank: number, size: number): Promise<Observations['mismatches']> {
  const last = rank === size - 1;
  const frozen = (): nn.Linear => {
    const model = new nn.Linear(3, 3);
    model.requiresGrad_(!last);
    return model;
  };
  const models: Record<string, () => nn.Linear | RunningMean | Deep> = {
    'another shape': () => new nn.Linear(3, last ? 5 : 4),
    'another class': () => (last ? new Deep() : new nn.Linear(3, 4)),
    'fewer parameters': () => new nn.Linear(3, 4, { bias: !last }),
    'other parameters frozen': frozen,
  };
  const options: Record<string, () => Strategy> = {
    'another bucket size': () => ddp({ bucketBytes: last ? 2048 : 1024 }),
    'another stage': () => zero({ stage: last ? 2 : 1 }),
    'another limit of units': () => fsdp({ reshardAfterForward: last }),
    'another precision': () => ddp({ mixedPrecision: { computeDtype: last ? 'f16' : 'bf16' } }),
  };
  const found: Observations['mismatches'] = {};
  const cases = [
    ...Object.entries(models).map(([name, build]) => [name, build, () => ddp()] as const),
    ...Object.entries(options).map(
      ([name, strategy]) => [name, () => new nn.Linear(3, 4), strategy] as const,
    ),
  ];
  for (const [name, build, strategy] of cases) {
    const error = await createAny(build(), strategy());
    if (ShardwiseError.isInstance(error)) {
      const { code, message, fields } = error;
      found[name] = {
        name: error instanceof CollectiveMismatchError ? error.name : 'another error',
        code,
        message,
        fields,
      };
    }
  }
  return found;
}

async function createAny(
  model: nn.Module & { forward(x: Tensor): Tensor },
  strategy: Strategy,
): Promise<unknown> {
  try {
    return await parallelize(model, strategy);
  } catch (error) {
    return error;
  }
}

export async function main(context: RankContext): Promise<Observations> {
  await join(context);
  const { rank, size } = context;
  return {
    initial: await initial(rank),
    buffers: await buffers(rank),
    evaluations: await evaluations(rank),
    traffic: await traffic(),
    timeline: await timeline(),
    made: await made(ddp(), (parameters) => new optim.SGD(parameters, { lr: 0.1, momentum: 0.9 })),
    madeInParts: await made(fsdp(), (parameters) => new optim.AdamW(parameters)),
    mismatches: await mismatches(rank, size),
  };
}

/** Computes a loss that leaves parameters out, on all ranks or on one of them. */
export async function leaveOut(context: RankContext): Promise<void> {
  await join(context);
  const { rank, data } = context;
  const model = new Deep();
  const parallel = await parallelize(model, ddp());
  const used =
    data === 'all' || data === rank
      ? model.first.forward(ones([2, 16]))
      : parallel.forward(ones([2, 16]));
  used.sum().backward();
  await new optim.SGD(model.parameters()).step();
}
