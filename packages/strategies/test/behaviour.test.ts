import {
  CollectiveMismatchError,
  fromData,
  manualSeed,
  nn,
  noGrad,
  ones,
  optim,
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
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { failureOf } from './failure-of.ts';

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

const size = 3;

type Averaged = PlannedModel<RunningMean, [x: Tensor], Tensor>;

const forward = (model: Averaged): Tensor => model.forward(ones([4, 2]));

const evaluate = (model: Averaged): Tensor => {
  model.module.eval();
  return noGrad(() => forward(model));
};

/** Counts what is sent while `build`'s loss is computed. */
async function trafficOf(
  build: () => Tensor,
): Promise<{ readonly collectives: number; readonly bytes: number }> {
  const before = statistics();
  await build().item();
  const after = statistics();
  return {
    collectives: after.collectives - before.collectives,
    bytes: after.collectiveBytes - before.collectiveBytes,
  };
}

/** Returns the plans made and the programs compiled in each of six steps. */
async function madeInSteps(
  strategy: Strategy,
  makeOptimizer: (parameters: nn.Parameter[]) => optim.Optimizer,
): Promise<readonly { readonly plans: number; readonly programs: number }[]> {
  const parallel = await parallelize(new Deep(), strategy);
  const optimizer = makeOptimizer(parallel.module.parameters());
  const made: { plans: number; programs: number }[] = [];
  for (let step = 0; step < 6; step++) {
    const before = statistics();
    optimizer.zeroGrad();
    const loss = parallel.forward(fromData(new Float32Array(32).fill(step), [2, 16], 'f32')).sum();
    loss.backward();
    await optimizer.step();
    await loss.item();
    const after = statistics();
    made.push({
      plans: after.plansMade - before.plansMade,
      programs: after.programsCompiled - before.programsCompiled,
    });
  }
  return made;
}

const nothing = { plans: 0, programs: 0 };

describe(`DistributedDataParallel on ${size} ranks`, () => {
  it("gives every rank rank 0's parameters and buffers, whatever it began with", async () => {
    const [root, ...others] = await onRanks(size, async ({ rank }) => {
      manualSeed(rank);
      const { module } = await parallelize(new RunningMean(rank + 1), ddp());
      return valuesOf(module);
    });
    expect(root?.['mean']).toEqual([1, -1]);
    expect(root?.['linear.weight']).toHaveLength(6);
    for (const values of others) expect(values).toEqual(root);
  });

  describe('buffers', () => {
    // Rank r has set its running mean to [10 + r, r]. A training pass adds ones.
    const own = (rank: number): number[] => [10 + rank, rank];
    const root = (): number[] => own(0);
    const plusOnes = (values: readonly number[]): number[] => values.map((value) => value + 1);

    /** Expects the running mean that the last of the passes used, and the one that it left. */
    async function expectMean(
      broadcastBuffers: boolean,
      pass: (model: Averaged) => Tensor,
      used: (rank: number) => readonly number[],
      left: (rank: number) => readonly number[],
    ): Promise<void> {
      await onRanks(size, async ({ rank }) => {
        const parallel = await parallelize(new RunningMean(0), ddp({ broadcastBuffers }));
        const { mean, linear } = parallel.module;
        mean.assign(fromData(Float32Array.from(own(rank)), [2], 'f32'));
        // y = (x - used) wᵀ + b. x is all ones, and the weight picks both elements.
        linear.weight.assign(fromData(Float32Array.of(-1, 0, 0, -1, 0, 0), [3, 2], 'f32'));
        linear.bias?.assign(fromData(Float32Array.of(1, 1, 0), [3], 'f32'));
        const y = await pass(parallel).data();
        expect(Array.from(y, Number).slice(0, 2)).toEqual(used(rank));
        expect(Array.from(await mean.data(), Number)).toEqual(left(rank));
      });
    }

    it("are rank 0's in every forward pass of training", () =>
      expectMean(true, forward, root, () => plusOnes(root())));

    it("are rank 0's in each of two forward passes before a backward pass", () =>
      expectMean(
        true,
        (model) => {
          forward(model);
          return forward(model);
        },
        () => plusOnes(root()),
        () => plusOnes(plusOnes(root())),
      ));

    it("stay the rank's own with noSync", () =>
      expectMean(
        true,
        (model) => model.noSync(() => forward(model)),
        own,
        (rank) => plusOnes(own(rank)),
      ));

    it("stay the rank's own with broadcastBuffers: false", () =>
      expectMean(false, forward, own, (rank) => plusOnes(own(rank))));

    it("are rank 0's in evaluation", () => expectMean(true, evaluate, root, root));

    it("are rank 0's in evaluation inside noSync", () =>
      expectMean(true, (model) => model.noSync(() => evaluate(model)), root, root));

    it("stay the rank's own in evaluation with broadcastBuffers: false", () =>
      expectMean(false, evaluate, own, own));

    it('travel before each pass that trains, and once before the evaluations after it, of which ranks may have different numbers', async () => {
      await onRanks(size, async ({ rank }) => {
        const parallel = await parallelize(new RunningMean(0), ddp());
        const messagesOfPass = async (): Promise<number> => {
          const before = statistics().collectives;
          await noGrad(() => forward(parallel)).data();
          return statistics().collectives - before;
        };
        for (let epoch = 0; epoch < 2; epoch++) {
          parallel.module.train();
          // There are two messages, one for each dtype.
          for (let batch = 0; batch < 2; batch++) expect(await messagesOfPass()).toBe(2);
          parallel.module.eval();
          expect(await messagesOfPass()).toBe(2);
          for (let batch = 0; batch <= rank; batch++) expect(await messagesOfPass()).toBe(0);
        }
      });
    });
  });

  it('communicates in a step what its plan says, and nothing inside noSync', async () => {
    await onRanks(size, async () => {
      const model = new Deep();
      const strategy = ddp({ bucketBytes: 1024 });
      const parallel = await parallelize(model, strategy);
      const backward = (): Tensor => {
        const loss = parallel.forward(ones([2, 16])).sum();
        loss.backward();
        return loss;
      };
      // The first pass also exchanges the order in which gradients arrived.
      await trafficOf(backward);
      const planned = collectivesOf(planFor(model, strategy)).filter(
        ({ when }) => when === 'backward',
      );
      expect(planned).toHaveLength(3);
      expect(await trafficOf(backward)).toEqual({
        collectives: 3,
        bytes: planned.reduce((sum, { bytes }) => sum + bytes, 0),
      });
      const { collectives } = await trafficOf(() => parallel.noSync(backward));
      expect(collectives).toBe(0);
    });
  });

  it('starts the first all-reduce before the last part of backward is computed', async () => {
    await onRanks(size, async () => {
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
      const started = events
        .toSorted((a, b) => a.startMs - b.startMs)
        .map(({ category }) => category);
      expect(started.filter((category) => category === 'collective')).toHaveLength(3);
      expect(started.indexOf('collective')).toBeLessThan(started.lastIndexOf('compute'));
    });
  });

  it('makes no plan and compiles nothing once it has seen a first and a second step', async () => {
    await onRanks(size, async () => {
      const made = await madeInSteps(
        ddp(),
        (parameters) => new optim.SGD(parameters, { lr: 0.1, momentum: 0.9 }),
      );
      expect(made.slice(2)).toEqual([nothing, nothing, nothing, nothing]);
    });
  });

  it('makes all plans of a model in parts in the first step, in which ranks tell each other what they reduce', async () => {
    await onRanks(size, async () => {
      const made = await madeInSteps(fsdp(), (parameters) => new optim.AdamW(parameters));
      expect(made.slice(1)).toEqual([nothing, nothing, nothing, nothing, nothing]);
    });
  });

  describe('refuses models that differ, on every rank, naming rank and tensor', () => {
    type Model = nn.Module & { forward(x: Tensor): Tensor };

    const linear = (): Model => new nn.Linear(3, 4);
    const partlyFrozen = (isLast: boolean): Model => {
      const model = new nn.Linear(3, 3);
      model.requiresGrad_(!isLast);
      return model;
    };

    /** Expects the error of a model or a strategy that differs on the last rank. */
    async function expectMismatch(
      makeModel: (isLast: boolean) => Model,
      makeStrategy: (isLast: boolean) => Strategy,
      [everywhere, onThatRank]: readonly [everywhere: RegExp, onThatRank: RegExp],
      fields: { readonly rank: number; readonly tensor?: number },
    ): Promise<void> {
      await onRanks(size, async ({ rank }) => {
        const isLast = rank === size - 1;
        const failure = await failureOf(parallelize(makeModel(isLast), makeStrategy(isLast)));
        expect(failure).toBeInstanceOf(CollectiveMismatchError);
        expect(failure).toMatchObject({ code: 'COLLECTIVE_MISMATCH', fields });
        expect(failure?.message).toMatch(everywhere);
        expect(failure?.message).toContain(
          'Build the same model, with the same strategy and options, on every rank',
        );
        if (isLast) expect(failure?.message).toMatch(onThatRank);
      });
    }

    it.each<[string, (isLast: boolean) => Model, tensor: number, RegExp, RegExp]>([
      [
        'another shape',
        (isLast) => new nn.Linear(3, isLast ? 5 : 4),
        0,
        /rank 2 differs from rank 0 at tensor 0: rank 0 has weight f32 \[4, 3\]/,
        /it has weight f32 \[5, 3\]/,
      ],
      [
        'another class',
        (isLast) => (isLast ? new Deep() : new nn.Linear(3, 4)),
        0,
        /rank 0 has weight f32 \[4, 3\]/,
        /it has first.weight f32 \[32, 16\]/,
      ],
      [
        'fewer parameters',
        (isLast) => new nn.Linear(3, 4, { bias: !isLast }),
        1,
        /rank 0 has bias f32 \[4\]/,
        /it has no such tensor/,
      ],
      [
        'other parameters frozen',
        partlyFrozen,
        0,
        /rank 0 has weight f32 \[3, 3\]/,
        /it has weight f32 \[3, 3\] frozen/,
      ],
    ])('%s', (_, makeModel, tensor, everywhere, onThatRank) =>
      expectMismatch(makeModel, () => ddp(), [everywhere, onThatRank], { rank: 2, tensor }),
    );

    it.each<[string, (isLast: boolean) => Strategy, RegExp, RegExp]>([
      [
        'another bucket size',
        (isLast) => ddp({ bucketBytes: isLast ? 2048 : 1024 }),
        /rank 0 has the step reduce .*1024/,
        /it has the step reduce .*2048/,
      ],
      [
        'another stage',
        (isLast) => zero({ stage: isLast ? 2 : 1 }),
        /rank 0 has the strategy/,
        /it has the strategy/,
      ],
      [
        'another limit of units',
        (isLast) => fsdp({ reshardAfterForward: isLast }),
        /rank 0 has the step/,
        /it has the step/,
      ],
      [
        'another precision',
        (isLast) => ddp({ mixedPrecision: { computeDtype: isLast ? 'f16' : 'bf16' } }),
        /autocast bf16/,
        /autocast f16/,
      ],
    ])('and options that differ: %s', (_, makeStrategy, everywhere, onThatRank) =>
      expectMismatch(linear, makeStrategy, [everywhere, onThatRank], { rank: 2 }),
    );
  });
});

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
