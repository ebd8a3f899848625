import { allReduce, fromData, nn, ShardwiseError, statistics, type Tensor } from '@shardwise/core';
import {
  type CommHook,
  type DistributedDataParallelOptions,
  bf16CompressHook,
  ddp,
  f16CompressHook,
  parallelize,
  powerSgdHook,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

const numbers = z.array(z.number());

/** The observations of one rank. */
export const hookObservations = z.object({
  /** The gradients of the same matrix after one pass and after several passes, by hook. */
  conformance: z.record(z.string(), z.array(numbers)),
  /** The bytes that one of these passes sent, by hook. */
  bytes: z.record(z.string(), z.number()),
  /** For a matrix of full rank: the sums of the gradients of the passes, and the bytes that one pass sent. */
  powerSgd: z.record(z.string(), z.object({ sums: z.array(numbers), bytes: z.number() })),
  /** The arguments of the hook in a model with two buckets. */
  buckets: z.array(
    z.object({
      index: z.number(),
      isLast: z.boolean(),
      shapes: z.array(numbers),
      ranks: z.number(),
    }),
  ),
  refusals: z.record(z.string(), z.object({ code: z.string(), message: z.string() })),
  /** The gradients of the pass after one whose hook threw. */
  recovered: numbers,
});

export type HookObservations = z.infer<typeof hookObservations>;

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

export const hooks: Readonly<Record<string, () => DistributedDataParallelOptions>> = {
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
export function element(index: number, rank: number): number {
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

export async function main(context: RankContext): Promise<HookObservations> {
  await join(context);
  return {
    ...(await conformance(context.rank)),
    powerSgd: await powerSgd(context.rank),
    buckets: await buckets(),
    refusals: await refusals(),
    recovered: await recovered(),
  };
}
