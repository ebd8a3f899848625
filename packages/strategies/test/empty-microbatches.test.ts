import { singleGroup } from '@shardwise/collectives';
import { LineMesh, manualSeed, nn, ones, setRank, Tensor, tensor } from '@shardwise/core';
import { type LossWeight, parallelize, pipeline } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { compare, type EmptyTask, expectAsAlone, ignored } from './empty-microbatch-cases.ts';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('pp', singleGroup()) }));

const common = { schedule: 'zb1p', stages: 2, microbatches: 4 } as const;
const full = [0, 1, 2, 2];

async function expectSame(task: EmptyTask): Promise<void> {
  expectAsAlone(await compare(task));
}

describe('microbatches in which nothing counts', () => {
  const losses = ['crossEntropy', 'a masked mean', 'a mean of at least one'] as const;

  it.each(losses)('add nothing to the loss and to gradients: %s', async (loss) => {
    await expectSame({ ...common, loss, shares: [[[0, 2, ignored, 1], full]] });
  });

  it.each(losses)('may be all of a batch, which changes no parameter: %s', async (loss) => {
    const task = { ...common, loss, shares: [[full, full.map(() => ignored)]] };
    const { piped, alone } = await compare(task);
    expectAsAlone({ piped, alone });
    expect(piped.losses[1]).toEqual(loss === 'a mean of at least one' ? 0 : Number.NaN);
    const { piped: before } = await compare({ ...task, shares: [[full]] });
    expect(piped.parameters).toEqual(before.parameters);
  });

  it('microbatches in which nothing counts may have numbers as weights', async () => {
    const { crossEntropy } = nn.functional;
    const gradientsBy = async (weight: LossWeight): Promise<number[]> => {
      manualSeed(1);
      const loss = (output: Tensor, targets: Tensor): Tensor => crossEntropy(output, targets);
      const strategy = pipeline({ schedule: 'gpipe', microbatches: 4, loss, weight });
      const model = await parallelize(new nn.Linear(2, 3), strategy);
      const targets = tensor([2, ignored, 1, ignored], 'i32');
      const total = model.forward(ones([4, 2]), targets);
      total.backward();
      const gradient = (await model.module.weight.grad?.data()) ?? [];
      return [await total.item(), ...Array.from(gradient, Number)];
    };
    const weights = [1, 0, 1, 0];
    const found = await gradientsBy(() => weights.shift() ?? Number.NaN);
    const expected = await gradientsBy((_, targets) =>
      targets instanceof Tensor ? targets.ge(0).to('f32').sum() : Number.NaN,
    );
    expect(found).toHaveLength(7);
    expect(found.filter(Number.isNaN)).toEqual([]);
    expect(found).toEqual(expected);
  });

  it('microbatches in which nothing counts may consist of NaN', async () => {
    const shares = [[[ignored, 2, 1, ignored]]];
    await expectSame({ ...common, loss: 'crossEntropy', shares, padding: Number.NaN });
  });
});

describe('a batch with fewer rows than microbatches', () => {
  it.each([
    'a mean over rows',
    'a mean by the number of rows',
    'a sum',
    'crossEntropy',
    'a masked mean',
  ] as const)('trains as on one rank, between others: %s', async (loss) => {
    await expectSame({ ...common, loss, shares: [[full, [1, 0, 2], full, [2], [0, 1]]] });
  });

  it('a batch with fewer rows than microbatches may have no rows, and then changes no parameter', async () => {
    for (const loss of ['a mean over rows', 'crossEntropy', 'a sum'] as const) {
      await expectSame({ ...common, loss, shares: [[full, []]] });
    }
  });
});

describe('the weight of a microbatch', () => {
  it.each([
    [-1, '-1, for microbatch 0'],
    [Number.NaN, 'NaN, for microbatch 0'],
    [Number.POSITIVE_INFINITY, 'Infinity, for microbatch 0'],
  ])('is refused if it is %s', async (given, message) => {
    const loss = (output: Tensor): Tensor => output.mean();
    const strategy = pipeline({ schedule: 'gpipe', microbatches: 2, loss, weight: () => given });
    const model = await parallelize(new nn.Linear(2, 1), strategy);
    expect(() => model.forward(ones([2, 2]))).toThrow(message);
  });
});
