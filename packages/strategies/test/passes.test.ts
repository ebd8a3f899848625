import {
  fromData,
  nn,
  ones,
  optim,
  ShardwiseError,
  statistics,
  type Tensor,
} from '@shardwise/core';
import {
  ddp,
  type ModelPlan,
  parallelize,
  type PlannedModel,
  stepKinds,
  stepsOf,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

/** The observations of one rank. */
interface PassObservations {
  /** The names of the parameters in each bucket: at first, and after one, two and three steps. */
  buckets: Record<string, string[][][]>;
  /** The gradients of the third step, by parameter. All elements of a gradient are equal. */
  gradients: Record<string, number>;
  /** The gradients when every pass uses one of two parameters, and the errors of passes that use another one. */
  staticGraph: {
    gradients: Record<string, number | null>;
    errors: {
      code: string;
      message: string;
    }[];
  };
  /** The buffers after one forward pass, and the number of its collectives. */
  buffers: {
    collectives: number;
    values: Record<string, number[]>;
  };
}

/** A model that uses its layers in another order than it declares them. */
class Tangled extends nn.Module {
  readonly last = new nn.Linear(2, 2, { bias: false });
  readonly first = new nn.Linear(2, 2, { bias: false });
  readonly middle = new nn.Linear(2, 2, { bias: false });
  readonly spare = new nn.Linear(2, 2, { bias: false });

  constructor() {
    super();
    this.apply((module) => {
      if (module instanceof nn.Linear)
        module.weight.assign(fromData(Float32Array.of(1, 0, 0, 1), [2, 2], 'f32'));
    });
    this.spare.requiresGrad_(false);
  }

  /** Shape: x [B, 2] -> [B, 2]. */
  forward(x: Tensor, alternative = false): Tensor {
    const [one, two] = alternative ? [this.middle, this.last] : [this.last, this.middle];
    return one.forward(two.forward(this.first.forward(x)));
  }
}

/** Returns the names of parameters whose gradients are reduced together, in the order in which they are reduced. */
function bucketsOf({ plan }: { readonly plan: ModelPlan }): (readonly string[])[] {
  return stepsOf(plan, stepKinds.reduce).map(({ data }) => data.parameters);
}

async function buckets(rank: number): Promise<Pick<PassObservations, 'buckets' | 'gradients'>> {
  const found: PassObservations['buckets'] = {};
  const gradients: PassObservations['gradients'] = {};
  for (const findUnusedParameters of [false, true]) {
    const parallel = await parallelize(
      new Tangled(),
      ddp({
        bucketBytes: 1,
        findUnusedParameters,
      }),
    );
    const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0 });
    const seen = [bucketsOf(parallel)];
    for (let step = 0; step < 3; step++) {
      optimizer.zeroGrad();
      // Rank 0's order counts, whatever the order of the other ranks.
      parallel
        .forward(ones([1, 2]).mul(rank + 1), rank > 0)
        .sum()
        .backward();
      await optimizer.step();
      seen.push(bucketsOf(parallel));
    }
    found[`findUnusedParameters: ${findUnusedParameters}`] = seen.map((each) =>
      each.map((names) => [...names]),
    );
    for (const [name, { grad }] of parallel.module.namedParameters()) {
      if (grad !== null) gradients[name] = Number((await grad.data())[0]);
    }
  }
  return { buckets: found, gradients };
}

/** A model that adds the sums of two weights, or takes one of them. */
class Pair extends nn.Module {
  readonly a = new nn.Linear(2, 2, { bias: false });
  readonly b = new nn.Linear(2, 2, { bias: false });

  /** Shape: -> []. */
  forward(uses: 'a' | 'b' | 'both'): Tensor {
    const a = this.a.weight.sum();
    const b = this.b.weight.sum();
    return uses === 'a' ? a : uses === 'b' ? b : a.add(b);
  }
}

async function staticGraph(rank: number): Promise<PassObservations['staticGraph']> {
  const create = (): Promise<PlannedModel<Pair, ['a' | 'b' | 'both'], Tensor>> =>
    parallelize(new Pair(), ddp({ staticGraph: true, bucketBytes: 1 }));
  const parallel = await create();
  const gradients: PassObservations['staticGraph']['gradients'] = {};
  for (let step = 0; step < 3; step++) {
    parallel.module.zeroGrad();
    parallel.forward('a').mul(rank).backward();
    for (const [name, { grad }] of parallel.module.namedParameters())
      gradients[`${name} in step ${step}`] = grad === null ? null : Number((await grad.data())[0]);
  }
  const errors: PassObservations['staticGraph']['errors'] = [];
  for (const [before, after] of [
    ['a', 'both'],
    ['both', 'a'],
  ] as const) {
    const other = await create();
    const optimizer = new optim.SGD(other.module.parameters(), { lr: 1 });
    for (let step = 0; step < 2; step++) {
      optimizer.zeroGrad();
      other.forward(before).backward();
      await optimizer.step();
    }
    optimizer.zeroGrad();
    other.forward(after).backward();
    try {
      await optimizer.step();
    } catch (error) {
      if (!ShardwiseError.isInstance(error)) throw error;
      errors.push({ code: error.code, message: error.message });
    }
  }
  return { gradients, errors };
}

/** A model with buffers of two dtypes. */
class Buffers extends nn.Module {
  readonly linear = new nn.Linear(2, 2);
  readonly mean = new nn.BufferTensor(Float32Array.of(0, 0), [2]);
  readonly variance = new nn.BufferTensor(Float32Array.of(0, 0, 0, 0), [2, 2]);
  readonly count = new nn.BufferTensor(Int32Array.of(0), [], { dtype: 'i32' });
  readonly epoch = new nn.BufferTensor(Int32Array.of(0, 0), [2], { dtype: 'i32' });

  /** Shape: x [B, 2] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    return this.linear.forward(x).add(this.mean);
  }
}

async function buffers(rank: number): Promise<PassObservations['buffers']> {
  const parallel = await parallelize(new Buffers(), ddp());
  const { module } = parallel;
  for (const [, buffer] of module.namedBuffers()) {
    buffer.assign(buffer.add(rank + 1));
    await buffer.data();
  }
  const before = statistics().collectives;
  const y = parallel.forward(ones([1, 2]));
  await y.data();
  const values: Record<string, number[]> = {};
  const { collectives } = statistics();
  for (const [name, buffer] of module.namedBuffers())
    values[name] = Array.from(await buffer.data(), Number);
  return { collectives: collectives - before, values };
}

async function observe(context: RankInThread): Promise<PassObservations> {
  const { rank } = context;
  return {
    ...(await buckets(rank)),
    staticGraph: await staticGraph(rank),
    buffers: await buffers(rank),
  };
}

const size = 3;
let ranks: readonly PassObservations[] = [];

beforeAll(async () => {
  ranks = await onRanks(size, observe);
});

describe('buckets', () => {
  const declared = [['middle.weight'], ['first.weight'], ['last.weight']];
  // Backward visits the layers in the reverse of the order in which rank 0 used them.
  const arrived = [['last.weight'], ['middle.weight'], ['first.weight']];

  it("buckets are filled again in the order of rank 0's gradients when the first step is over", () => {
    for (const { buckets } of ranks) {
      // The backward pass of the second step is the first that uses the new buckets.
      expect(buckets['findUnusedParameters: false']).toEqual([
        declared,
        declared,
        arrived,
        arrived,
      ]);
    }
  });

  it('buckets stay as they are where parameters may be unused', () => {
    for (const { buckets } of ranks) {
      expect(buckets['findUnusedParameters: true']).toEqual([
        declared,
        declared,
        declared,
        declared,
      ]);
    }
  });

  it('buckets give the mean of the ranks in either order', () => {
    const mean = (1 + 2 + 3) / 3;
    for (const { gradients } of ranks)
      expect(gradients).toEqual({
        'last.weight': mean,
        'first.weight': mean,
        'middle.weight': mean,
      });
  });
});

describe('a static graph', () => {
  it('a static graph counts parameters that no pass uses as zero', () => {
    const mean = (0 + 1 + 2) / 3;
    for (const { staticGraph } of ranks) {
      expect(staticGraph.gradients).toEqual({
        'a.weight in step 0': mean,
        'b.weight in step 0': 0,
        'a.weight in step 1': mean,
        'b.weight in step 1': 0,
        'a.weight in step 2': mean,
        'b.weight in step 2': 0,
      });
    }
  });

  it('a static graph is an error where a later step uses other parameters, which it names', () => {
    for (const { staticGraph } of ranks) {
      expect(staticGraph.errors).toHaveLength(2);
      const [more, fewer] = staticGraph.errors;
      expect(more?.code).toBe('TENSOR_STATE');
      expect(more?.message).toContain('b.weight got a gradient for the first time');
      expect(fewer?.code).toBe('TENSOR_STATE');
      expect(fewer?.message).toContain('b.weight got no gradient this time');
    }
  });
});

describe('buffers', () => {
  it("of one dtype travel as one message, and are rank 0's on all ranks", () => {
    for (const { buffers } of ranks) {
      expect(buffers.collectives).toBe(2);
      expect(buffers.values).toEqual({
        mean: [1, 1],
        variance: [1, 1, 1, 1],
        count: [1],
        epoch: [1, 1],
      });
    }
  });
});
