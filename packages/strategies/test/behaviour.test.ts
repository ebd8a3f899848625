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
  TensorStateError,
  type TimelineEvent,
} from '@shardwise/core';
import {
  collectivesOf,
  ddp,
  fsdp,
  parallelize,
  planFor,
  type PlannedModel,
  zero,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { failureOf } from './failure-of.ts';

type Numbers = number[];

/** The observations of one rank. */
interface Observations {
  /** The parameters and buffers after `create`. */
  initial: Record<string, Numbers>;
  /** The running mean that a forward pass used, and the one that it left. */
  buffers: Record<
    string,
    {
      used: Numbers;
      left: Numbers;
    }
  >;
  /**
   * The numbers of collectives in the forward passes of two epochs: of two training passes, then of the first
   * evaluation and of the most of any later one.
   */
  evaluations: {
    training: Numbers;
    evaluation: Numbers;
  }[];
  /** The collectives of one step, with and without noSync, and those in the plan. */
  traffic: {
    planned: {
      collectives: number;
      bytes: number;
    };
    counted: {
      collectives: number;
      bytes: number;
    };
    inNoSync: number;
  };
  /** The events of a backward pass, in the order in which they began. */
  timeline: ('compute' | 'collective')[];
  /** The plans made and the programs compiled up to each step. */
  made: {
    plans: number;
    programs: number;
  }[];
  /** The same counts for a model in parts. */
  madeInParts: {
    plans: number;
    programs: number;
  }[];
  /** The error of `create` if models differ. */
  mismatches: Record<
    string,
    {
      name: string;
      code: string;
      message: string;
      fields: Record<string, unknown>;
    }
  >;
}

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

async function observe(context: RankInThread): Promise<Observations> {
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

/** Makes a step whose loss leaves parameters out, on all ranks or on one of them. */
async function leaveOut(rank: number, by: number | 'all'): Promise<void> {
  const model = new Deep();
  const parallel = await parallelize(model, ddp());
  const used =
    by === 'all' || by === rank
      ? model.first.forward(ones([2, 16]))
      : parallel.forward(ones([2, 16]));
  used.sum().backward();
  await new optim.SGD(model.parameters()).step();
}

const size = 3;

describe(`DistributedDataParallel on ${size} ranks`, () => {
  let ranks: readonly Observations[] = [];

  beforeAll(async () => {
    ranks = await onRanks(size, observe);
  });

  it("gives every rank rank 0's parameters and buffers, whatever it began with", () => {
    const [root, ...others] = ranks.map(({ initial }) => initial);
    expect(root?.['mean']).toEqual([1, -1]);
    expect(root?.['linear.weight']).toHaveLength(6);
    for (const initial of others) expect(initial).toEqual(root);
  });

  describe('buffers', () => {
    // Rank r has set its running mean to [10 + r, r]. A training pass adds ones.
    const own = (rank: number): number[] => [10 + rank, rank];
    const root = own(0);
    const plusOnes = (values: readonly number[]): number[] => values.map((value) => value + 1);

    it("buffers are rank 0's in every forward pass of training", () => {
      for (const { buffers } of ranks)
        expect(buffers['training']).toEqual({ used: root, left: plusOnes(root) });
    });

    it("buffers are rank 0's in each of two forward passes before a backward pass", () => {
      for (const { buffers } of ranks)
        expect(buffers['twice']).toEqual({ used: plusOnes(root), left: plusOnes(plusOnes(root)) });
    });

    it.each(['noSync', 'broadcastBuffers: false'])("stay the rank's own with %s", (name) => {
      ranks.forEach(({ buffers }, rank) =>
        expect(buffers[name]).toEqual({ used: own(rank), left: plusOnes(own(rank)) }),
      );
    });

    it.each(['evaluation', 'evaluation inside noSync'])("are rank 0's in %s", (name) => {
      for (const { buffers } of ranks) expect(buffers[name]).toEqual({ used: root, left: root });
    });

    it("buffers stay the rank's own in evaluation with broadcastBuffers: false", () => {
      ranks.forEach(({ buffers }, rank) =>
        expect(buffers['evaluation with broadcastBuffers: false']).toEqual({
          used: own(rank),
          left: own(rank),
        }),
      );
    });

    it('travel before each pass that trains, and once before the evaluations after it, of which ranks may have different numbers', () => {
      for (const { evaluations } of ranks) {
        // There are two messages, one for each dtype.
        const epoch = { training: [2, 2], evaluation: [2, 0] };
        expect(evaluations).toEqual([epoch, epoch]);
      }
    });
  });

  it('communicates in a step what its plan says, and nothing inside noSync', () => {
    for (const { traffic } of ranks) {
      expect(traffic.planned.collectives).toBe(3);
      expect(traffic.counted).toEqual(traffic.planned);
      expect(traffic.inNoSync).toBe(0);
    }
  });

  it('starts the first all-reduce before the last part of backward is computed', () => {
    for (const { timeline } of ranks) {
      expect(timeline.filter((category) => category === 'collective')).toHaveLength(3);
      expect(timeline.indexOf('collective')).toBeLessThan(timeline.lastIndexOf('compute'));
    }
  });

  it('makes no plan and compiles nothing once it has seen a first and a second step', () => {
    for (const { made } of ranks) {
      expect(made).toHaveLength(6);
      expect(new Set(made.slice(1).map((counts) => JSON.stringify(counts))).size).toBe(1);
    }
  });

  it('makes all plans of a model in parts in the first step, in which ranks tell each other what they reduce', () => {
    for (const { madeInParts } of ranks) {
      expect(madeInParts).toHaveLength(6);
      expect(new Set(madeInParts.map((counts) => JSON.stringify(counts))).size).toBe(1);
    }
  });

  describe('refuses models that differ, on every rank, naming rank and tensor', () => {
    it.each([
      [
        'another shape',
        0,
        /rank 2 differs from rank 0 at tensor 0: rank 0 has weight f32 \[4, 3\]/,
        /it has weight f32 \[5, 3\]/,
      ],
      ['another class', 0, /rank 0 has weight f32 \[4, 3\]/, /it has first.weight f32 \[32, 16\]/],
      ['fewer parameters', 1, /rank 0 has bias f32 \[4\]/, /it has no such tensor/],
      [
        'other parameters frozen',
        0,
        /rank 0 has weight f32 \[3, 3\]/,
        /it has weight f32 \[3, 3\] frozen/,
      ],
    ] as const)('%s', (name, tensor, everywhere, onThatRank) => {
      for (const { mismatches } of ranks) {
        expect(mismatches[name]).toMatchObject({
          name: 'CollectiveMismatchError',
          code: 'COLLECTIVE_MISMATCH',
          fields: { rank: 2, tensor },
        });
        expect(mismatches[name]?.message).toMatch(everywhere);
        expect(mismatches[name]?.message).toContain(
          'Build the same model, with the same strategy and options, on every rank',
        );
      }
      expect(ranks[2]?.mismatches[name]?.message).toMatch(onThatRank);
    });

    it.each([
      ['another bucket size', /rank 0 has the step reduce .*1024/, /it has the step reduce .*2048/],
      ['another stage', /rank 0 has the strategy/, /it has the strategy/],
      ['another limit of units', /rank 0 has the step/, /it has the step/],
      ['another precision', /autocast bf16/, /autocast f16/],
    ] as const)('and options that differ: %s', (name, everywhere, onThatRank) => {
      for (const { mismatches } of ranks) {
        expect(mismatches[name]).toMatchObject({
          name: 'CollectiveMismatchError',
          fields: { rank: 2 },
        });
        expect(mismatches[name]?.message).toMatch(everywhere);
      }
      expect(ranks[2]?.mismatches[name]?.message).toMatch(onThatRank);
    });
  });
});

describe('a parameter without gradient', () => {
  const unused = [
    'third.bias',
    'third.weight',
    'second.bias',
    'second.weight',
    'norm.bias',
    'norm.weight',
  ];

  it('of any loss of a step is an error of the update that names it, on every rank that leaves it out', async () => {
    await onRanks(2, async ({ rank }) => {
      const error = await failureOf(leaveOut(rank, 'all'));
      expect(error).toBeInstanceOf(TensorStateError);
      expect(error).toMatchObject({ code: 'TENSOR_STATE', fields: { missing: unused } });
      expect(error?.message).toContain(
        `6 of 8 parameters got no gradient from any backward pass of this step: ${unused.join(', ')}. Use every parameter in a loss`,
      );
      expect(error?.message).toContain('findUnusedParameters: true');
    });
  });

  it('of one rank ends the others when that rank is gone', async () => {
    const others: unknown[] = [];
    const ended = onRanks(2, async ({ rank }) => {
      const step = leaveOut(rank, 1);
      if (rank === 1) await step;
      else others.push(await failureOf(step));
    });
    await expect(ended).rejects.toMatchObject({
      rank: 1,
      report: { code: 'TENSOR_STATE', fields: { missing: unused } },
    });
    expect(others).toMatchObject([{ code: 'COLLECTIVE_ABORTED', fields: { abortedBy: 1 } }]);
    expect(String(others[0])).toContain('third.weight');
  });
});
