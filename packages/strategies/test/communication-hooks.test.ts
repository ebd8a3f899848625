import { allReduce, fromData, nn, ShardwiseError, statistics, type Tensor } from '@shardwise/core';
import {
  bf16CompressHook,
  type CommHook,
  ddp,
  type DistributedDataParallelOptions,
  f16CompressHook,
  parallelize,
  powerSgdHook,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

type Numbers = number[];

/** The observations of one rank. */
interface HookObservations {
  /** The gradients of the same matrix after one pass and after several passes, by hook. */
  conformance: Record<string, Numbers[]>;
  /** The bytes that one of these passes sent, by hook. */
  bytes: Record<string, number>;
  /** For a matrix of full rank: the sums of the gradients of the passes, and the bytes that one pass sent. */
  powerSgd: Record<
    string,
    {
      sums: Numbers[];
      bytes: number;
    }
  >;
  /** The arguments of the hook in a model with two buckets. */
  buckets: {
    index: number;
    isLast: boolean;
    shapes: Numbers[];
    ranks: number;
  }[];
  refusals: Record<
    string,
    {
      code: string;
      message: string;
    }
  >;
  /** The gradients of the pass after one whose hook threw. */
  recovered: Numbers;
}

/** Adds a matrix to its input. */
class Shift extends nn.Module {
  readonly p = new nn.Parameter(Float32Array.of(1, 1, 1, 1), [2, 2]);

  /** Shape: x [2, 2] -> [2, 2]. */
  forward(x: Tensor): Tensor {
    return this.p.add(x);
  }
}

/** Multiplies its matrix by its input, so that the gradient of the matrix is the input. */
class Product extends nn.Module {
  readonly weight = new nn.Parameter(new Float32Array(8 * 8), [8, 8]);
  readonly bias = new nn.Parameter(new Float32Array(8), [8]);

  /** Shape: x [8, 8] -> []. */
  forward(x: Tensor): Tensor {
    return this.weight.mul(x).sum().add(this.bias.sum());
  }
}

const always = { startIteration: 2, minCompressionRate: 0.5 } as const;
const flags = [true, false];

const hooks: Readonly<Record<string, () => DistributedDataParallelOptions>> = {
  none: () => ({}),
  'gradientPredivideFactor: 2': () => ({ gradientPredivideFactor: 2 }),
  'gradientAsBucketView: true': () => ({ gradientAsBucketView: true }),
  f16CompressHook: () => ({ commHook: f16CompressHook }),
  bf16CompressHook: () => ({ commHook: bf16CompressHook }),
  'a hook of buffers': () => ({ commHook: ofBuffers }),
  ...Object.fromEntries(
    flags.flatMap((useErrorFeedback) =>
      flags.map((warmStart) => [
        `powerSgdHook({ useErrorFeedback: ${useErrorFeedback}, warmStart: ${warmStart} })`,
        () => ({ commHook: powerSgdHook({ ...always, useErrorFeedback, warmStart }) }),
      ]),
    ),
  ),
};

function ofBuffers(bucket: Parameters<CommHook>[0]): readonly Tensor[] {
  return bucket.split(allReduce(bucket.buffer, bucket.axis, { reduce: 'avg' }));
}

async function valuesOf(tensor: Tensor | null): Promise<number[]> {
  return Array.from((await tensor?.data()) ?? [], Number);
}

async function conformance(rank: number): Promise<Pick<HookObservations, 'conformance' | 'bytes'>> {
  const found: HookObservations['conformance'] = {};
  const bytes: HookObservations['bytes'] = {};
  for (const [name, options] of Object.entries(hooks)) {
    const parallel = await parallelize(new Shift(), ddp(options()));
    const passes: number[][] = [];
    for (let pass = 0; pass < 4; pass++) {
      parallel.module.zeroGrad();
      const x = fromData(new Float32Array(4).fill(8 + rank), [2, 2], 'f32');
      parallel.forward(x).mean().backward();
      const before = statistics().collectiveBytes;
      passes.push(await valuesOf(parallel.module.p.grad));
      bytes[name] = statistics().collectiveBytes - before;
    }
    found[name] = passes;
  }
  return { conformance: found, bytes };
}

/** An element of a matrix of full rank. The mean of the ranks' matrices is the matrix of rank (size - 1) / 2. */
function element(index: number, rank: number): number {
  return Math.sin(index * index) + rank * Math.cos(index);
}

async function powerSgd(rank: number): Promise<HookObservations['powerSgd']> {
  const cases: Readonly<Record<string, CommHook>> = {
    'as many columns as the matrix': powerSgdHook({ ...always, matrixApproximationRank: 8 }),
    'one column with error feedback': powerSgdHook(always),
    'one column without': powerSgdHook({ ...always, useErrorFeedback: false }),
    'one column that is not worth it': powerSgdHook({ ...always, minCompressionRate: 4 }),
  };
  const x = Float32Array.from({ length: 64 }, (_, index) => element(index, rank));
  const found: HookObservations['powerSgd'] = {};
  for (const [name, commHook] of Object.entries(cases)) {
    const parallel = await parallelize(new Product(), ddp({ commHook }));
    const { weight } = parallel.module;
    const total = new Float64Array(64);
    const sums: number[][] = [];
    let bytes = 0;
    for (let pass = 0; pass < 42; pass++) {
      parallel.module.zeroGrad();
      parallel.forward(fromData(x.slice(), [8, 8], 'f32')).backward();
      const before = statistics().collectiveBytes;
      const gradient = await valuesOf(weight.grad);
      bytes = statistics().collectiveBytes - before;
      if (pass < 2) continue;
      gradient.forEach((value, index) => (total[index] = (total[index] ?? 0) + value));
      sums.push([...total]);
    }
    found[name] = { sums, bytes };
  }
  return found;
}

async function buckets(): Promise<HookObservations['buckets']> {
  const seen: HookObservations['buckets'] = [];
  const commHook: CommHook = (bucket) => {
    seen.push({
      index: bucket.index,
      isLast: bucket.isLast,
      shapes: bucket.parameters.map(({ shape }) => [...shape]),
      ranks: bucket.ranks,
    });
    return ofBuffers(bucket);
  };
  const parallel = await parallelize(
    new Product(),
    ddp({
      bucketBytes: 1,
      commHook,
    }),
  );
  parallel.forward(fromData(new Float32Array(64), [8, 8], 'f32')).backward();
  await valuesOf(parallel.module.weight.grad);
  return seen;
}

async function refusals(): Promise<HookObservations['refusals']> {
  const cases: Readonly<Record<string, () => DistributedDataParallelOptions>> = {
    'no gradients': () => ({ commHook: () => [] }),
    'another shape': () => ({ commHook: ({ gradients }) => gradients.map((each) => each.sum()) }),
    'another dtype': () => ({
      commHook: ({ gradients }) => gradients.map((each) => each.to('i32')),
    }),
    'a hook and a factor': () => ({ commHook: f16CompressHook, gradientPredivideFactor: 2 }),
    'a factor of 0': () => ({ gradientPredivideFactor: 0 }),
    'gradients outside their message': () => ({ gradientAsBucketView: false }),
    'error feedback from the first step on': () => ({
      commHook: powerSgdHook({ startIteration: 1 }),
    }),
    'half a column': () => ({ commHook: powerSgdHook({ matrixApproximationRank: 0.5 }) }),
  };
  const found: HookObservations['refusals'] = {};
  for (const [name, options] of Object.entries(cases)) {
    try {
      const parallel = await parallelize(new Shift(), ddp(options()));
      parallel
        .forward(fromData(new Float32Array(4), [2, 2], 'f32'))
        .sum()
        .backward();
    } catch (error) {
      if (!ShardwiseError.isInstance(error)) throw error;
      found[name] = { code: error.code, message: error.message };
    }
  }
  return found;
}

/** Uses two buckets. The hook refuses the second one once. */
async function recovered(): Promise<number[]> {
  let failures = 0;
  const commHook: CommHook = (bucket) => {
    if (bucket.isLast && failures++ === 0) throw new RangeError('planned');
    return ofBuffers(bucket);
  };
  const parallel = await parallelize(
    new Product(),
    ddp({
      bucketBytes: 1,
      commHook,
    }),
  );
  const pass = (): void =>
    parallel.forward(fromData(new Float32Array(64).fill(3), [8, 8], 'f32')).backward();
  try {
    pass();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  parallel.module.zeroGrad();
  pass();
  return valuesOf(parallel.module.weight.grad);
}

async function observe(context: RankInThread): Promise<HookObservations> {
  return {
    ...(await conformance(context.rank)),
    powerSgd: await powerSgd(context.rank),
    buckets: await buckets(),
    refusals: await refusals(),
    recovered: await recovered(),
  };
}

const size = 2;
let ranks: readonly HookObservations[] = [];

beforeAll(async () => {
  ranks = await onRanks(size, observe);
});

describe("a hook gives the mean of the ranks' gradients", () => {
  // The loss is the mean of four elements p + x + rank, so each element has the gradient 1/4 on every rank.
  it.each(Object.keys(hooks))('%s', (name) => {
    for (const { conformance } of ranks) {
      const passes = conformance[name] ?? [];
      expect(passes).toHaveLength(4);
      for (const gradient of passes) {
        expect(gradient).toHaveLength(4);
        for (const value of gradient) expect(value).toBeCloseTo(0.25, 6);
      }
    }
  });
});

it.each([
  ['none', 16],
  ['f16CompressHook', 8],
  ['bf16CompressHook', 8],
])('four gradients travel with the hook %s as %i bytes', (name, bytes) => {
  for (const rank of ranks) expect(rank.bytes[name]).toBe(bytes);
});

describe('PowerSGD', () => {
  const mean = Array.from({ length: 64 }, (_, index) => element(index, (size - 1) / 2));
  const norm = Math.hypot(...mean);
  const sumsOf = (name: string): readonly number[][] => {
    const [first, ...others] = ranks.map(({ powerSgd }) => powerSgd[name]?.sums);
    for (const other of others) expect(other).toEqual(first);
    expect(first).toHaveLength(40);
    return first ?? [];
  };
  /** The relative distance of the mean gradient of the first passes from the true gradient. */
  const distance = (name: string, passes: number): number =>
    Math.hypot(...mean.map((value, i) => (sumsOf(name)[passes - 1]?.[i] ?? NaN) / passes - value)) /
    norm;

  it('with as many columns as the matrix has is exact', () => {
    expect(distance('as many columns as the matrix', 1)).toBeLessThan(1e-5);
    expect(distance('as many columns as the matrix', 40)).toBeLessThan(1e-5);
  });

  it('PowerSGD gives later what it has left out, with error feedback', () => {
    expect(distance('one column with error feedback', 1)).toBeGreaterThan(0.3);
    expect(distance('one column with error feedback', 40)).toBeLessThan(0.2);
  });

  it('never gives what it has left out, without', () => {
    expect(distance('one column without', 40)).toBeGreaterThan(0.3);
  });

  it('PowerSGD sends two columns instead of the matrix, and the bias as it is', () => {
    for (const { powerSgd } of ranks) {
      expect(powerSgd['one column with error feedback']?.bytes).toBe(2 * 32 + 32);
      expect(powerSgd['one column that is not worth it']?.bytes).toBe(8 * 32 + 32);
    }
  });
});

describe('a communication hook', () => {
  it('a communication hook is told of each bucket, in the order in which they leave', () => {
    for (const { buckets } of ranks) {
      expect(buckets).toEqual([
        { index: 0, isLast: false, shapes: [[8]], ranks: size },
        { index: 1, isLast: true, shapes: [[8, 8]], ranks: size },
      ]);
    }
  });

  it('that threw leaves nothing behind for the next pass', () => {
    for (const { recovered } of ranks)
      expect(recovered).toEqual(Array.from({ length: 64 }, () => 3));
  });

  it.each([
    ['no gradients', 'SHAPE', '1 gradients of the communication hook for bucket 0: 0 of them'],
    ['another shape', 'SHAPE', 'f32 [2, 2]: f32 [] of the communication hook'],
    ['another dtype', 'DTYPE', 'f32 [2, 2]: i32 [2, 2] of the communication hook'],
    ['a hook and a factor', 'CONFIG', 'a hook that averages in its own way'],
    ['a factor of 0', 'CONFIG', 'gradientPredivideFactor: 0'],
    ['gradients outside their message', 'CONFIG', 'gradientAsBucketView: false'],
    ['error feedback from the first step on', 'CONFIG', 'Use a startIteration of 2 or more'],
    ['half a column', 'CONFIG', 'PowerSGD of rank 0.5'],
  ])('is refused %s', (name, code, message) => {
    for (const { refusals } of ranks) {
      expect(refusals[name]?.code).toBe(code);
      expect(refusals[name]?.message).toContain(message);
    }
  });
});
