import { fromData, nn, noGrad, optim, ShardwiseError, type Tensor } from '@shardwise/core';
import {
  type JoinOptions,
  ZeroRedundancyOptimizer,
  ddp,
  join,
  parallelize,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join as joinWorld } from '../../../../test/ranks/join.ts';

/** The results on one rank of a training in which ranks have different numbers of batches. */
export const ended = z.object({
  steps: z.number(),
  weight: z.array(z.number()),
  seen: z.number(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

export type Ended = z.infer<typeof ended>;

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

export const cases: Readonly<Record<string, Case>> = {
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
  { rank, size }: RankContext,
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

export async function main(context: RankContext): Promise<Record<string, Ended>> {
  await joinWorld(context);
  const found: Record<string, Ended> = {};
  for (const [name, each] of Object.entries(cases)) found[name] = await train(each, context);
  return found;
}
