import { allReduce, fromData, nn, statistics, type Tensor } from '@shardwise/core';
import {
  bf16CompressHook,
  type CommHook,
  ddp,
  type DistributedDataParallelOptions,
  f16CompressHook,
  parallelize,
  powerSgdHook,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

const size = 2;

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

const matrix = (of: (index: number) => number): Tensor =>
  fromData(
    Float32Array.from({ length: 64 }, (_, index) => of(index)),
    [8, 8],
    'f32',
  );

const ofBuffers: CommHook = (bucket) =>
  bucket.split(allReduce(bucket.buffer, bucket.axis, { reduce: 'avg' }));

/** The elements of a gradient, and the bytes that its messages have. */
async function received(gradient: Tensor | null): Promise<{ values: number[]; bytes: number }> {
  const before = statistics().collectiveBytes;
  const values = Array.from((await gradient?.data()) ?? [], Number);
  return { values, bytes: statistics().collectiveBytes - before };
}

const always = { startIteration: 2, minCompressionRate: 0.5 } as const;
const withoutFeedback = { ...always, useErrorFeedback: false } as const;
const withoutStart = { warmStart: false } as const;

it.each<[name: string, bytes: number | null, options: () => DistributedDataParallelOptions]>([
  ['none', 16, () => ({})],
  ['gradientPredivideFactor: 2', 16, () => ({ gradientPredivideFactor: 2 })],
  ['gradientAsBucketView: true', 16, () => ({ gradientAsBucketView: true })],
  ['f16CompressHook', 8, () => ({ commHook: f16CompressHook })],
  ['bf16CompressHook', 8, () => ({ commHook: bf16CompressHook })],
  ['a hook of buffers', 16, () => ({ commHook: ofBuffers })],
  ['PowerSGD', null, () => ({ commHook: powerSgdHook(always) })],
  [
    'PowerSGD, feedback alone',
    null,
    () => ({ commHook: powerSgdHook({ ...always, ...withoutStart }) }),
  ],
  ['PowerSGD, start alone', null, () => ({ commHook: powerSgdHook(withoutFeedback) })],
  [
    'PowerSGD, neither',
    null,
    () => ({ commHook: powerSgdHook({ ...withoutFeedback, ...withoutStart }) }),
  ],
])(
  "a hook gives the mean of the ranks' gradients: %s, in messages of %j bytes",
  async (_, wanted, options) => {
    await onRanks(size, async ({ rank }) => {
      const parallel = await parallelize(new Shift(), ddp(options()));
      for (let pass = 0; pass < 4; pass++) {
        parallel.module.zeroGrad();
        const x = fromData(new Float32Array(4).fill(8 + rank), [2, 2], 'f32');
        parallel.forward(x).mean().backward();
        const { values, bytes } = await received(parallel.module.p.grad);
        // The loss is the mean of four elements p + x + rank.
        expect(values).toHaveLength(4);
        for (const value of values) expect(value).toBeCloseTo(0.25, 6);
        if (wanted !== null && pass > 0) expect(bytes).toBe(wanted);
      }
    });
  },
);

describe('PowerSGD', () => {
  /** An element of a matrix of full rank. The mean of the ranks' matrices is the matrix of rank (size - 1) / 2. */
  const element = (index: number, rank: number): number =>
    Math.sin(index * index) + rank * Math.cos(index);
  const mean = Array.from({ length: 64 }, (_, index) => element(index, (size - 1) / 2));

  /**
   * The relative distance of the mean gradient from the true one, of the first compressed pass and of all 40, and the
   * bytes of a pass.
   */
  const observed = async (commHook: () => CommHook) => {
    const [first, second] = await onRanks(size, async ({ rank }) => {
      const parallel = await parallelize(new Product(), ddp({ commHook: commHook() }));
      const total = mean.map(() => 0);
      const distances: number[] = [];
      for (let pass = -1; ; pass++) {
        parallel.module.zeroGrad();
        parallel.forward(matrix((index) => element(index, rank))).backward();
        const { values, bytes } = await received(parallel.module.weight.grad);
        if (pass < 1) continue;
        values.forEach((value, index) => (total[index] = (total[index] ?? 0) + value));
        const errors = mean.map((value, index) => (total[index] ?? NaN) / pass - value);
        distances.push(Math.hypot(...errors) / Math.hypot(...mean));
        if (pass === 40) return { once: distances[0], inAll: distances[39], bytes, total };
      }
    });
    expect(second).toEqual(first);
    return first ?? expect.fail();
  };

  it('with as many columns as the matrix has is exact', async () => {
    const { once, inAll } = await observed(() =>
      powerSgdHook({ ...always, matrixApproximationRank: 8 }),
    );
    expect(once).toBeLessThan(1e-5);
    expect(inAll).toBeLessThan(1e-5);
  });

  it('gives later what it has left out, with error feedback, and sends two columns and the bias', async () => {
    const { once, inAll, bytes } = await observed(() => powerSgdHook(always));
    expect(once).toBeGreaterThan(0.3);
    expect(inAll).toBeLessThan(0.2);
    expect(bytes).toBe(2 * 32 + 32);
  });

  it('never gives what it has left out, without', async () => {
    const { inAll } = await observed(() => powerSgdHook(withoutFeedback));
    expect(inAll).toBeGreaterThan(0.3);
  });

  it('sends the matrix if it is not worth it', async () => {
    const { bytes } = await observed(() => powerSgdHook({ ...always, minCompressionRate: 4 }));
    expect(bytes).toBe(8 * 32 + 32);
  });
});

describe('a communication hook', () => {
  it('is told of each bucket, in the order in which they leave', async () => {
    await onRanks(size, async () => {
      const seen: object[] = [];
      const commHook: CommHook = (bucket) => {
        const { index, isLast, ranks, parameters } = bucket;
        seen.push({ index, isLast, shapes: parameters.map(({ shape }) => [...shape]), ranks });
        return ofBuffers(bucket);
      };
      const parallel = await parallelize(new Product(), ddp({ bucketBytes: 1, commHook }));
      parallel.forward(matrix(() => 0)).backward();
      await received(parallel.module.weight.grad);
      expect(seen).toEqual([
        { index: 0, isLast: false, shapes: [[8]], ranks: size },
        { index: 1, isLast: true, shapes: [[8, 8]], ranks: size },
      ]);
    });
  });

  it('that threw leaves nothing behind for the next pass', async () => {
    await onRanks(size, async () => {
      let failures = 0;
      const commHook: CommHook = (bucket) => {
        if (bucket.isLast && failures++ === 0) throw new RangeError('planned');
        return ofBuffers(bucket);
      };
      const parallel = await parallelize(new Product(), ddp({ bucketBytes: 1, commHook }));
      const pass = (): void => parallel.forward(matrix(() => 3)).backward();
      expect(pass).toThrow('planned');
      parallel.module.zeroGrad();
      pass();
      const { values } = await received(parallel.module.weight.grad);
      expect(values).toEqual(Array.from({ length: 64 }, () => 3));
    });
  });

  it.each<
    [name: string, code: string, message: string, options: () => DistributedDataParallelOptions]
  >([
    [
      'no gradients',
      'SHAPE',
      '1 gradients of the communication hook for bucket 0: 0 of them',
      () => ({ commHook: () => [] }),
    ],
    [
      'another shape',
      'SHAPE',
      'f32 [2, 2]: f32 [] of the communication hook',
      () => ({ commHook: ({ gradients }) => gradients.map((each) => each.sum()) }),
    ],
    [
      'another dtype',
      'DTYPE',
      'f32 [2, 2]: i32 [2, 2] of the communication hook',
      () => ({ commHook: ({ gradients }) => gradients.map((each) => each.to('i32')) }),
    ],
    [
      'a hook and a factor',
      'CONFIG',
      'a hook that averages in its own way',
      () => ({ commHook: f16CompressHook, gradientPredivideFactor: 2 }),
    ],
    [
      'a factor of 0',
      'CONFIG',
      'gradientPredivideFactor: 0',
      () => ({ gradientPredivideFactor: 0 }),
    ],
    [
      'gradients outside their message',
      'CONFIG',
      'gradientAsBucketView: false',
      () => ({ gradientAsBucketView: false }),
    ],
    [
      'error feedback from the first step on',
      'CONFIG',
      'Use a startIteration of 2 or more',
      () => ({ commHook: powerSgdHook({ startIteration: 1 }) }),
    ],
    [
      'half a column',
      'CONFIG',
      'PowerSGD of rank 0.5',
      () => ({ commHook: powerSgdHook({ matrixApproximationRank: 0.5 }) }),
    ],
  ])('is refused: %s', async (_, code, message, options) => {
    await onRanks(size, async () => {
      const pass = async (): Promise<void> => {
        const parallel = await parallelize(new Shift(), ddp(options()));
        parallel
          .forward(fromData(new Float32Array(4), [2, 2], 'f32'))
          .sum()
          .backward();
      };
      await expect(pass()).rejects.toThrow(
        expect.objectContaining({ code, message: expect.stringContaining(message) }),
      );
    });
  });
});
