import {
  fromData,
  LayoutError,
  nn,
  noGrad,
  optim,
  type ParameterSpec,
  type Tensor,
  zeros,
} from '@shardwise/core';
import { dataParallel, explain, parallelize, type PlannedModel } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';

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

const batch = 7;
const rows = Array.from({ length: batch }, (_, row) => row + 1);
const mean = 4;

/** The batch on rank 0. The other ranks only know its shape. */
const batchOf = (rank: number): Tensor =>
  rank === 0 ? fromData(Float32Array.from(rows), [batch, 1], 'f32') : zeros([batch, 1]);

type Parallel = PlannedModel<Times, [x: Tensor], Tensor>;

describe.each([1, 2, 3])('DataParallel on %i ranks', (size) => {
  /** Runs `body` as each rank, with a model whose weight is 10 on rank 0 and -1 elsewhere. */
  const onModel = <T>(
    body: (model: Parallel, rank: number, isMaster: boolean) => Promise<T>,
  ): Promise<readonly T[]> =>
    onRanks(size, async ({ rank }) =>
      body(await parallelize(new Times(rank === 0 ? 10 : -1), dataParallel()), rank, rank === 0),
    );
  const onMaster = (isMaster: boolean, values: readonly number[]): readonly number[] =>
    isMaster ? values : values.map(() => 0);

  it('divides the rows of a batch, the first ranks one more where they do not divide', () =>
    onModel(async (model, rank) => {
      await model.forward(batchOf(rank)).data();
      expect(model.module.rows).toBe({ 1: [7], 2: [4, 3], 3: [3, 2, 2] }[size]?.[rank]);
    }));

  it("gathers the outputs of rank 0's batch and parameters on rank 0, zeros on the others", () =>
    onModel(async (model, rank, isMaster) => {
      const output = model.forward(batchOf(rank));
      expect(output.shape).toEqual([batch, 1]);
      expect(await valuesOf(output)).toEqual(
        onMaster(
          isMaster,
          rows.map((row) => row * 10),
        ),
      );
    }));

  it('gathers tensors in arrays and objects, and a scalar of each rank', async () => {
    await onRanks(size, async ({ rank }) => {
      const several = await parallelize(new Several(), dataParallel());
      const { doubled, mean: means, note } = several.forward({ x: batchOf(rank) }, 2);
      const [first = means] = doubled;
      first.retain();
      const ofEach = { 1: [4], 2: [2.5, 6], 3: [2, 4.5, 6.5] }[size] ?? [];
      const found = await valuesOf(means);
      if (rank === 0) expect(found).toEqual(ofEach);
      const both = await valuesOf(first);
      if (rank === 0) expect(both).toEqual(rows.map((row) => row * 2));
      expect(note).toBe('as it is');
    });
  });

  it('has gradients and optimizer states on rank 0 alone', () =>
    onModel(async (model, rank, isMaster) => {
      const { weight } = model.module;
      const optimizer = new optim.AdamW(model.module.parameters());
      model.forward(batchOf(rank)).mean().backward();
      await optimizer.step();
      expect(weight.grad && (await valuesOf(weight.grad))).toEqual(isMaster ? [mean] : null);
      expect(optimizer.stateOf(weight) !== undefined).toBe(isMaster);
    }));

  it('updates rank 0, and the others when it is replicated', async () => {
    const [master, ...others] = await onModel(async (model, rank) => {
      const { weight } = model.module;
      const optimizer = new optim.AdamW(model.module.parameters(), { lr: 1, weightDecay: 0 });
      model.forward(batchOf(rank)).mean().backward();
      await optimizer.step();
      const before = await valuesOf(weight);
      model.replicate();
      return { before, after: await valuesOf(weight) };
    });
    // Adam's first step has the size of the learning rate, 1.
    expect(master?.before[0]).toBeCloseTo(9, 5);
    expect(master?.after).toEqual(master?.before);
    for (const each of others) expect(each).toEqual({ before: [10], after: master?.before });
  });

  it('accumulates the gradients of several passes on rank 0, and keeps its buffers', () =>
    onModel(async (model, rank, isMaster) => {
      const { weight, passes } = model.module;
      model.noSync(() => model.forward(batchOf(rank)).sum().backward());
      await weight.realize();
      model.forward(batchOf(rank)).sum().backward();
      await weight.realize();
      const { grad } = weight;
      expect(grad && (await valuesOf(grad))).toEqual(isMaster ? [2 * batch * mean] : null);
      expect(await valuesOf(passes)).toEqual([2]);
    }));

  it.each<[string, string, (model: Parallel) => unknown]>([
    ...(size === 1
      ? []
      : ([
          [
            'fewer rows than ranks',
            'rows in dim 0',
            (model) => model.forward(zeros([size - 1, 1])),
          ],
        ] satisfies [string, string, (model: Parallel) => unknown][])),
    ['no rows', 'inputs without a tensor that has rows', (model) => model.forward(zeros([]))],
    [
      'an input that requires a gradient',
      'Pass input.detach()',
      (model) => model.forward(zeros([size, 1]).requiresGrad_()),
    ],
  ])('refuses %s', async (_, message, run) => {
    await onModel(async (model) => {
      expect(() => run(model)).toThrow(LayoutError);
      expect(() => run(model)).toThrow(message);
    });
  });

  it('refuses outputs whose rows are not those of the batch', async () => {
    await onRanks(size, async () => {
      const squeezed = await parallelize(new Squeezed(), dataParallel());
      const run = (): unknown => squeezed.forward(zeros([2 * size, 1]));
      expect(run).toThrow(LayoutError);
      expect(run).toThrow('5 rows of a batch of');
    });
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
