import { fromData, nn, noGrad, optim, ShardwiseError, type Tensor } from '@shardwise/core';
import {
  ddp,
  join,
  type JoinOptions,
  parallelize,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

/** The results on one rank of a training in which ranks have different numbers of batches. */
interface Ended {
  steps: number;
  weight: number[];
  seen: number;
  error: {
    code: string;
    message: string;
  } | null;
}

/** A model in which the gradient of each weight is its input. It counts its training passes. */
class Scale extends nn.Module {
  readonly weight = new nn.Parameter(Float32Array.of(0), [1]);
  readonly other = new nn.Parameter(Float32Array.of(0, 0), [2]);
  readonly seen = new nn.BufferTensor(Float32Array.of(0), [1]);

  /** Shape: x [1] -> []. */
  forward(x: Tensor): Tensor {
    noGrad(() => this.seen.assign(this.seen.add(1)));
    // Backward computes the gradient of the first term first.
    return this.other.mul(x.mul(10)).sum().add(this.weight.mul(x).sum());
  }
}

interface Case {
  /** The number of batches of a rank. */
  readonly batches: (rank: number, size: number) => number;
  readonly options?: JoinOptions;
  readonly zeroRedundancy?: boolean;
  /** Replaces the single forward and backward pass for each batch. */
  readonly pass?: (forward: () => Tensor) => void;
}

const cases: Readonly<Record<string, Case>> = {
  'later ranks have more': { batches: (rank) => rank + 1 },
  'rank 0 has more': { batches: (rank, size) => size - rank },
  'all have as many': { batches: () => 2 },
  'one rank has none': { batches: (rank) => (rank === 1 ? 0 : 3) },
  'divided by those that take part': {
    batches: (rank) => rank + 1,
    options: { divideByInitialWorldSize: false },
  },
  'with a ZeroRedundancyOptimizer': { batches: (rank) => rank + 1, zeroRedundancy: true },
  'evaluating between forward and backward': {
    batches: (rank) => rank + 1,
    pass: (forward) => {
      const loss = forward();
      noGrad(forward);
      loss.backward();
    },
  },
  'with two backward passes for one forward pass': {
    batches: (rank) => rank + 1,
    pass: (forward) => {
      const loss = forward();
      loss.backward();
      loss.backward();
    },
  },
  'stopping with the first': {
    batches: (rank) => 2 * rank + 2,
    options: { throwOnEarlyTermination: true },
  },
};

async function train(
  { batches, options, zeroRedundancy = false, pass = (forward) => forward().backward() }: Case,
  { rank, size }: RankInThread,
): Promise<Ended> {
  const model = new Scale();
  const parallel = await parallelize(model, ddp());
  const settings = { lr: 1 };
  const plain = new optim.SGD(model.parameters(), settings);
  const sharded = new ZeroRedundancyOptimizer(model.parameters(), optim.SGD, settings);
  const optimizer = zeroRedundancy ? sharded : plain;
  let steps = 0;
  let error: Ended['error'] = null;
  const body = async (): Promise<void> => {
    for (let batch = 0; batch < batches(rank, size); batch++) {
      optimizer.zeroGrad();
      pass(() => parallel.forward(fromData(Float32Array.of(rank + 1), [1], 'f32')));
      await optimizer.step();
      steps++;
    }
  };
  try {
    await join(zeroRedundancy ? [parallel, sharded] : [parallel], body, options);
    // All ranks make one more step.
    optimizer.zeroGrad();
    parallel.forward(fromData(Float32Array.of(rank + 1), [1], 'f32')).backward();
    await optimizer.step();
  } catch (caught) {
    if (!ShardwiseError.isInstance(caught)) throw caught;
    error = { code: caught.code, message: caught.message };
  }
  const weight = [model.weight, model.other].map(async (each) =>
    Array.from(await each.data(), Number),
  );
  return {
    steps,
    weight: (await Promise.all(weight)).flat(),
    seen: Number((await model.seen.data())[0]),
    error,
  };
}

async function observe(context: RankInThread): Promise<Record<string, Ended>> {
  const found: Record<string, Ended> = {};
  for (const [name, each] of Object.entries(cases)) found[name] = await train(each, context);
  return found;
}

const size = 3;
let ranks: readonly Record<string, Ended>[] = [];

beforeAll(async () => {
  ranks = await onRanks(size, observe);
});

describe('ranks with different numbers of batches', () => {
  // A batch of rank r has the gradient r + 1. The learning rate is 1.
  it.each([
    ['later ranks have more', [1, 2, 3], (1 + 2 + 3 + 2 + 3 + 3) / 3],
    ['rank 0 has more', [3, 2, 1], (1 + 2 + 3 + 1 + 2 + 1) / 3],
    ['all have as many', [2, 2, 2], 2 * 2],
    ['one rank has none', [3, 0, 3], (3 * (1 + 3)) / 3],
    ['divided by those that take part', [1, 2, 3], 2 + 2.5 + 3],
    ['with a ZeroRedundancyOptimizer', [1, 2, 3], (1 + 2 + 3 + 2 + 3 + 3) / 3],
  ] as const)('end with one model: %s', (name, steps, distance) => {
    expect(ranks.map((rank) => rank[name]?.steps)).toEqual(steps);
    for (const rank of ranks) {
      expect(rank[name]?.error).toBeNull();
      // All ranks then make one more step, whose gradient is 2.
      const [first = NaN, ...others] = rank[name]?.weight ?? [];
      expect(first).toBeCloseTo(-distance - 2, 5);
      expect(others).toHaveLength(2);
      for (const value of others) expect(value / 10).toBeCloseTo(-distance - 2, 5);
      expect(rank[name]?.weight).toEqual(ranks[0]?.[name]?.weight);
    }
  });

  it.each([
    ['evaluating between forward and backward', 'no backward pass before the next forward pass'],
    ['with two backward passes for one forward pass', 'a second backward pass'],
  ])('are refused %s, which the others would not know of', (name, found) => {
    for (const rank of ranks) {
      expect(rank[name]?.error?.code).toBe('TENSOR_STATE');
      expect(rank[name]?.error?.message).toContain(
        `one backward pass for each forward pass inside join: ${found}`,
      );
    }
  });

  it('share the buffers of a rank that has batches', () => {
    for (const [name, { options, pass }] of Object.entries(cases)) {
      const most = Math.max(...ranks.map((rank) => rank[name]?.steps ?? NaN));
      if (options?.throwOnEarlyTermination === true || pass !== undefined) continue;
      for (const rank of ranks) expect(rank[name]?.seen, name).toBe(most + 1);
    }
  });

  it('stop with an error on all of them when the first has run out, where that is asked for', () => {
    const all = ranks.map((rank) => rank['stopping with the first']);
    // The other ranks finish the step that was under way when rank 0 ended.
    expect(all.map((each) => each?.steps)).toEqual([2, 3, 3]);
    for (const each of all) {
      expect(each?.error?.code).toBe('DATA');
      expect(each?.error?.message).toContain('the same number of batches on each of 3 ranks');
    }
  });
});
