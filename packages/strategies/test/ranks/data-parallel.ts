import {
  fromData,
  manualSeed,
  nn,
  noGrad,
  optim,
  ShardwiseError,
  type Tensor,
  zeros,
} from '@shardwise/core';
import { dataParallel, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

const numbers = z.array(z.number());

/** The observations of one rank. */
export const observations = z.object({
  /** The output for a batch of the rows 1, 2, ..., times 10, and the number of rows that the model saw. */
  output: z.object({ rows: z.number(), shape: numbers, values: numbers }),
  /** The outputs of a model that returns several tensors. */
  outputs: z.object({ doubled: numbers, means: numbers, note: z.string() }),
  /** The gradients after a step. Null if a parameter has none. */
  gradients: z.record(z.string(), numbers.nullable()),
  /** The number of parameters whose states the optimizer keeps. */
  states: z.number(),
  /** The weight after a step, before and after it is replicated. */
  weight: z.object({ before: numbers, after: numbers }),
  /** The sum of the gradients of two passes. */
  accumulated: numbers.nullable(),
  /** A buffer that counts training passes. */
  buffer: z.number(),
  refusals: z.record(z.string(), z.object({ code: z.string(), message: z.string() })),
});

export type Observations = z.infer<typeof observations>;

/** Multiplies its input by its weight. */
class Times extends nn.Module {
  readonly weight: nn.Parameter;
  readonly passes = new nn.BufferTensor(Float32Array.of(0), [1]);
  rows = 0;

  constructor(weight: number) {
    super();
    this.weight = new nn.Parameter(Float32Array.of(weight), [1]);
  }

  /** Shape: x [B, 1] -> [B, 1]. */
  forward(x: Tensor): Tensor {
    [this.rows = 0] = x.shape;
    noGrad(() => this.passes.assign(this.passes.add(1)));
    return x.mul(this.weight);
  }
}

/** A model that takes and returns more than one tensor. */
class Several extends nn.Module {
  /** Shape: x [B, 1] -> doubled [B, 1], mean []. */
  forward(
    { x }: { readonly x: Tensor },
    factor: number,
  ): {
    readonly doubled: readonly Tensor[];
    readonly mean: Tensor;
    readonly note: string;
  } {
    return { doubled: [x.mul(factor)], mean: x.mean(), note: 'as it is' };
  }
}

class Squeezed extends nn.Module {
  readonly linear = new nn.Linear(1, 1);

  /** Shape: x [B, 1] -> [5, 1]. */
  forward(x: Tensor): Tensor {
    return this.linear.forward(x).sum().expand([5, 1]);
  }
}

const read = async (tensor: Tensor): Promise<number[]> => Array.from(await tensor.data(), Number);

/** The batch on rank 0. The other ranks only know its shape. */
const batchOf = (rank: number, rows: number): Tensor =>
  rank === 0
    ? fromData(
        Float32Array.from({ length: rows }, (_, row) => row + 1),
        [rows, 1],
        'f32',
      )
    : zeros([rows, 1]);

export async function main(context: RankContext): Promise<Observations> {
  await join(context);
  const { rank, data } = context;
  const rows = Number(data);
  manualSeed(rank);
  // All ranks must end up with rank 0's weight.
  const parallel = await parallelize(new Times(rank === 0 ? 10 : -1), dataParallel());
  const { module } = parallel;
  const optimizer = new optim.AdamW(module.parameters(), { lr: 1, weightDecay: 0 });
  const y = parallel.forward(batchOf(rank, rows));
  y.mean().backward();
  y.retain();
  await optimizer.step();
  const output = { rows: module.rows, shape: [...y.shape], values: await read(y) };
  const gradients: Observations['gradients'] = {};
  for (const [name, { grad }] of module.namedParameters())
    gradients[name] = grad === null ? null : await read(grad);
  const states = module.parameters().filter((each) => optimizer.stateOf(each) !== undefined).length;
  const before = await read(module.weight);
  parallel.replicate();
  const after = await read(module.weight);

  optimizer.zeroGrad();
  parallel.noSync(() => parallel.forward(batchOf(rank, rows)).sum().backward());
  await module.weight.realize();
  parallel.forward(batchOf(rank, rows)).sum().backward();
  await module.weight.realize();
  const { grad } = module.weight;

  const several = await parallelize(new Several(), dataParallel());
  const { doubled, mean, note } = several.forward({ x: batchOf(rank, rows) }, 2);
  const [first = mean] = doubled;
  first.retain();
  const outputs = { means: await read(mean), doubled: await read(first), note };
  return {
    output,
    outputs,
    gradients,
    states,
    weight: { before, after },
    accumulated: grad === null ? null : await read(grad),
    buffer: Number((await module.passes.data())[0]),
    refusals: await refusals(context),
  };
}

async function refusals({ size }: RankContext): Promise<Observations['refusals']> {
  const times = await parallelize(new Times(1), dataParallel());
  const squeezed = await parallelize(new Squeezed(), dataParallel());
  const cases: Readonly<Record<string, () => unknown>> = {
    'fewer rows than ranks': () => times.forward(zeros([size - 1, 1])),
    'no rows': () => times.forward(zeros([])),
    'an input that requires a gradient': () =>
      times.forward(fromData(new Float32Array(size), [size, 1], 'f32').requiresGrad_()),
    'outputs of other rows': () => squeezed.forward(zeros([2 * size, 1])),
  };
  const found: Observations['refusals'] = {};
  for (const [name, run] of Object.entries(cases)) {
    try {
      run();
    } catch (error) {
      if (!ShardwiseError.isInstance(error)) throw error;
      found[name] = { code: error.code, message: error.message };
    }
  }
  return found;
}
