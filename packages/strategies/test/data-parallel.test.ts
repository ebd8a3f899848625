import {
  fromData,
  LayoutError,
  manualSeed,
  nn,
  noGrad,
  optim,
  type ParameterSpec,
  ShardwiseError,
  type Tensor,
  zeros,
} from '@shardwise/core';
import { dataParallel, explain, parallelize } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

type Numbers = number[];

/** The observations of one rank. */
interface Observations {
  /** The output for a batch of the rows 1, 2, ..., times 10, and the number of rows that the model saw. */
  output: {
    rows: number;
    shape: Numbers;
    values: Numbers;
  };
  /** The outputs of a model that returns several tensors. */
  outputs: {
    doubled: Numbers;
    means: Numbers;
    note: string;
  };
  /** The gradients after a step. Null if a parameter has none. */
  gradients: Record<string, Numbers | null>;
  /** The number of parameters whose states the optimizer keeps. */
  states: number;
  /** The weight after a step, before and after it is replicated. */
  weight: {
    before: Numbers;
    after: Numbers;
  };
  /** The sum of the gradients of two passes. */
  accumulated: Numbers | null;
  /** A buffer that counts training passes. */
  buffer: number;
  refusals: Record<
    string,
    {
      code: string;
      message: string;
    }
  >;
}

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

async function observe(context: RankInThread): Promise<Observations> {
  const { rank } = context;
  manualSeed(rank);
  // All ranks must end up with rank 0's weight.
  const parallel = await parallelize(new Times(rank === 0 ? 10 : -1), dataParallel());
  const { module } = parallel;
  const optimizer = new optim.AdamW(module.parameters(), { lr: 1, weightDecay: 0 });
  const y = parallel.forward(batchOf(rank, batch));
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
  parallel.noSync(() => parallel.forward(batchOf(rank, batch)).sum().backward());
  await module.weight.realize();
  parallel.forward(batchOf(rank, batch)).sum().backward();
  await module.weight.realize();
  const { grad } = module.weight;

  const several = await parallelize(new Several(), dataParallel());
  const { doubled, mean, note } = several.forward({ x: batchOf(rank, batch) }, 2);
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

async function refusals({ size }: RankInThread): Promise<Observations['refusals']> {
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

const batch = 7;

describe.each([1, 2, 3])('DataParallel on %i ranks', (size) => {
  let ranks: readonly Observations[] = [];
  const master = (): Observations | undefined => ranks[0];
  const others = (): readonly Observations[] => ranks.slice(1);

  beforeAll(async () => {
    ranks = await onRanks(size, observe);
  });

  const rows = Array.from({ length: batch }, (_, row) => row + 1);
  const mean = 4;

  it('divides the rows of a batch, the first ranks one more where they do not divide', () => {
    const counts = ranks.map(({ output }) => output.rows);
    expect(counts).toEqual({ 1: [7], 2: [4, 3], 3: [3, 2, 2] }[size]);
  });

  it("gathers the outputs of rank 0's batch and parameters on rank 0, zeros on the others", () => {
    for (const { output } of ranks) expect(output.shape).toEqual([batch, 1]);
    expect(master()?.output.values).toEqual(rows.map((row) => row * 10));
    for (const { output } of others()) expect(output.values).toEqual(rows.map(() => 0));
  });

  it('gathers tensors in arrays and objects, and a scalar of each rank', () => {
    expect(master()?.outputs.doubled).toEqual(rows.map((row) => row * 2));
    expect(master()?.outputs.means).toEqual({ 1: [4], 2: [2.5, 6], 3: [2, 4.5, 6.5] }[size]);
    for (const { outputs } of ranks) expect(outputs.note).toBe('as it is');
  });

  it('has gradients and optimizer states on rank 0 alone', () => {
    expect(master()?.gradients).toEqual({ weight: [mean] });
    expect(master()?.states).toBe(1);
    for (const each of others()) {
      expect(each.gradients).toEqual({ weight: null });
      expect(each.states).toBe(0);
    }
  });

  it('updates rank 0, and the others when it is replicated', () => {
    // Adam's first step has the size of the learning rate, 1.
    expect(master()?.weight.before[0]).toBeCloseTo(9, 5);
    for (const { weight } of others()) expect(weight.before).toEqual([10]);
    for (const { weight } of ranks) expect(weight.after).toEqual(master()?.weight.before);
  });

  it('accumulates the gradients of several passes on rank 0', () => {
    expect(master()?.accumulated).toEqual([2 * batch * mean]);
    for (const { accumulated } of others()) expect(accumulated).toBeNull();
  });

  it("keeps rank 0's buffers", () => {
    for (const { buffer } of ranks) expect(buffer).toBe(3);
  });

  it.each([
    ['fewer rows than ranks', 'rows in dim 0'],
    ['no rows', 'inputs without a tensor that has rows'],
    ['an input that requires a gradient', 'Pass input.detach()'],
  ])('refuses %s', (name, message) => {
    for (const { refusals } of ranks) {
      if (name === 'fewer rows than ranks' && size === 1) continue;
      expect(refusals[name]?.code).toBe('LAYOUT');
      expect(refusals[name]?.message).toContain(message);
    }
  });

  it('refuses outputs whose rows are not those of the batch', () => {
    for (const { refusals } of ranks) {
      expect(refusals['outputs of other rows']?.code).toBe('LAYOUT');
      expect(refusals['outputs of other rows']?.message).toContain('5 rows of a batch of');
    }
  });
});

describe('the plan of dataParallel', () => {
  const parameters: readonly ParameterSpec[] = [
    { name: 'up.weight', shape: [7, 4], dtype: 'f32', requiresGrad: true },
    { name: 'up.bias', shape: [7], dtype: 'f32', requiresGrad: true },
  ];

  it('the plan of dataParallel shows what rank 0 alone has', async () => {
    const plan = dataParallel().plan({ parameters }, [{ name: 'dp', size: 4 }]);
    // A rank of its own: sizes that have varied in this thread are explained, too.
    const [text] = await onRanks(1, async () => explain(plan));
    expect(text).toMatchInlineSnapshot(`
      "dataParallel on dp=4; batch: shard(0: dp)

      parameter  dtype  shape   layout     gradient     bytes
      up.weight  f32    [7, 4]  replicate  only(dp: 0)  112
      up.bias    f32    [7]     replicate  only(dp: 0)  28

      when      collective  axis  of            bytes
      forward   broadcast   dp    2 parameters  140
      backward  reduce      dp    2 parameters  140

      per rank          bytes
      parameters        140
      gradients         140
      optimizer states  280
      buffers           not known
      activations       not known
      sum               560

      optimizer states: assumed to be those of Adam; give { optimizerTensors } for another optimizer
      states: 16Ψ = 16 × 35 = 560 bytes, Ψ = 35 trained elements
      imbalance: rank 0 of dp keeps 560 bytes of states, each of the 3 others 140"
    `);
  });

  it('the plan of dataParallel is refused a mesh without the axis', () => {
    const plan = (): unknown => dataParallel().plan({ parameters }, [{ name: 'tp', size: 4 }]);
    expect(plan).toThrow(LayoutError);
    expect(plan).toThrow(
      "dataParallel over the mesh axis 'dp': the axes tp. Name an axis of the mesh",
    );
  });
});
