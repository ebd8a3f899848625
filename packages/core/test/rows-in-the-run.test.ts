import { cpu } from '@shardwise/backend-cpu';
import {
  arange,
  fromData,
  manualSeed,
  nn,
  optim,
  setRank,
  ShapeError,
  slice,
  statistics,
  tensor,
  type Tensor,
  zeros,
} from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

const x = (): Tensor => tensor([3, 0, -1, 0, 5, 2]);

describe.each([
  ['cpu', cpu],
  ['the interpreter', async () => interpreter()],
])('rows whose number the run computes, on %s', (_, create) => {
  beforeEach(async () => {
    setRank({ device: await create() });
  });

  it('are where elements are not zero, in order', async () => {
    const places = tensor([
      [0, 1, 0],
      [2, 0, 3],
    ]).nonzero();
    expect(places.shape).toEqual([NaN, 2]);
    expect([...(await places.data())]).toEqual([0, 1, 1, 0, 1, 2]);
    expect([...(await zeros([2, 3]).nonzero().data())]).toEqual([]);
  });

  it('are those of a mask, with gradients to where they were', async () => {
    const values = x().requiresGrad_();
    const mask = tensor([1, 0, 1, 0, 0, 1]).gt(0);
    const selected = values.maskedSelect(mask);
    expect([...(await selected.mul(2).data())]).toEqual([6, -2, 4]);
    selected.square().sum().backward();
    expect([...((await values.grad?.data()) ?? [])]).toEqual([6, 0, -2, 0, 0, 4]);
  });

  it('are those of at() by a mask alone, of all dims or the first ones', async () => {
    const matrix = tensor([
      [1, 2],
      [3, 4],
      [5, 6],
    ]).requiresGrad_();
    const rows = matrix.at(tensor([true, false, true]));
    expect([...(await rows.data())]).toEqual([1, 2, 5, 6]);
    rows.square().sum().backward();
    expect([...((await matrix.grad?.data()) ?? [])]).toEqual([2, 4, 0, 0, 10, 12]);
    expect([...(await matrix.at(matrix.gt(2), '...').data())]).toEqual([3, 4, 5, 6]);
    expect(() => matrix.at(tensor([true, false]))).toThrow('a mask of the shape of the tensor');
  });

  it('are those of a mask beside other indices, as PyTorch has them', async () => {
    const cube = fromData(
      Float32Array.from({ length: 12 }, (_, i) => i),
      [2, 3, 2],
      'f32',
    ).requiresGrad_();
    const [rows, places] = [tensor([false, true]), tensor([true, false, true])];
    const pairs = tensor([
      [true, false, false],
      [false, true, true],
    ]);
    const found = {
      number: cube.at(rows, 0),
      slice: cube.at(rows, slice(1, 3), ':'),
      'number before': cube.at(1, places),
      'both sides': cube.at(rows, ':', 1),
      index: cube.at(rows, tensor([2], 'i32')),
      'index apart': cube.at(rows, ':', tensor(1, 'i32')),
      'two dims': cube.at(pairs, 1),
      'new dim': cube.at(rows, null, 0),
    };
    const values = Object.entries(found).map(async ([name, x]) => [name, [...(await x.data())]]);
    expect(Object.fromEntries(await Promise.all(values))).toEqual({
      number: [6, 7],
      slice: [8, 9, 10, 11],
      'number before': [6, 7, 10, 11],
      'both sides': [7, 9, 11],
      index: [10, 11],
      'index apart': [7, 9, 11],
      'two dims': [1, 9, 11],
      'new dim': [6, 7],
    });
    cube.at(pairs, 1).square().sum().backward();
    expect([...((await cube.grad?.data()) ?? [])]).toEqual([0, 2, 0, 0, 0, 0, 0, 0, 0, 18, 0, 22]);
    expect(() => cube.at(':', places)).toThrow('Move the dims of the mask to the front');
    expect(() => cube.at(rows, places)).toThrow('Make one mask of both');
    expect(() => cube.at(rows, tensor([0, 1], 'i32'))).toThrow('Make one mask of both');
    expect(() => cube.at(places)).toThrow('sizes that differ from dim 0 on');
  });

  it('are different elements in order, of which each NaN is one', async () => {
    const found = tensor([3, 1, NaN, 3, -2, NaN, 1]).unique();
    expect([...(await found.data())]).toEqual([-2, 1, 3, NaN, NaN]);
    expect([...(await tensor([2, 2, 2], 'i32').unique().data())]).toEqual([2]);
    expect([...(await tensor([7]).unique().data())]).toEqual([7]);
    expect([...(await tensor([true, false, true]).unique().data())]).toEqual([0, 1]);
    expect(zeros([0]).unique().shape).toEqual([0]);
  });

  it('are different elements with their places and numbers', async () => {
    const x = tensor([
      [3, 1, -2],
      [3, 3, 1],
    ]).requiresGrad_();
    const { values, inverse, counts } = x.uniqueWithCounts();
    expect([...(await counts.data())]).toEqual([1, 2, 3]);
    expect([inverse.shape, [...(await inverse.data())]]).toEqual([
      [2, 3],
      [2, 1, 0, 2, 2, 1],
    ]);
    expect([...(await values.mul(counts).data())]).toEqual([-2, 2, 9]);
    expect([...(await values.indexSelect(0, inverse.flatten()).data())]).toEqual([
      3, 1, -2, 3, 3, 1,
    ]);
    const none = zeros([0, 2]).uniqueWithCounts();
    expect([none.values.shape, none.inverse.shape, none.counts.shape]).toEqual([[0], [0, 2], [0]]);
    const bools = tensor([true, true]).uniqueWithCounts();
    expect([[...(await bools.values.data())], [...(await bools.counts.data())]]).toEqual([
      [1],
      [2],
    ]);
  });

  it('are summed, averaged and multiplied as many as there are', async () => {
    const count = tensor([1, 1, 0, 1], 'i32').sum();
    const rows = tensor([
      [1, 2],
      [3, 4],
      [5, 6],
      [7, 8],
    ]).takeRows(count);
    expect([...(await rows.sum([0]).data())]).toEqual([9, 12]);
    expect([...(await rows.mean([0]).data())]).toEqual([3, 4]);
    expect(await rows.mean().item()).toBe(3.5);
    expect([...(await rows.matmul(tensor([[1], [1]])).data())]).toEqual([3, 7, 11]);
    expect([...(await rows.sub(rows.mean([0], { keepDim: true })).data())]).toEqual([
      -2, -2, 0, 0, 2, 2,
    ]);
    expect([...(await rows.fillRows(4).data())]).toEqual([1, 2, 3, 4, 5, 6, 0, 0]);
  });

  it('may be any number up to all, in one plan', async () => {
    const made: number[] = [];
    for (const kept of [6, 3, 0, 1, 5]) {
      const before = statistics().plansMade;
      const mask = arange(6).lt(kept);
      const total = fromData(Float32Array.of(1, 2, 3, 4, 5, 6), [6], 'f32')
        .maskedSelect(mask)
        .sum();
      expect(await total.item()).toBe((kept * (kept + 1)) / 2);
      made.push(statistics().plansMade - before);
    }
    expect(made.slice(2)).toEqual([0, 0, 0]);
  });

  it('train: each expert computes its own tokens, as with masks over all of them', async () => {
    const tokens = 10;
    const run = async (sparse: boolean): Promise<number[]> => {
      manualSeed(1);
      const router = new nn.Linear(4, 3);
      const experts = [0, 1, 2].map(
        () => new nn.Sequential(new nn.Linear(4, 8), new nn.GELU(), new nn.Linear(8, 4)),
      );
      const parameters = [router, ...experts].flatMap((module) => module.parameters());
      const optimizer = new optim.AdamW(parameters, { lr: 1e-2 });
      const losses: number[] = [];
      for (let step = 0; step < 6; step++) {
        const data = Float32Array.from({ length: tokens * 4 }, (__, i) => Math.sin(i * 1.7 + step));
        const input = fromData(data, [tokens, 4], 'f32');
        const scores = router.forward(input).softmax(-1);
        const choice = scores.argMax(1);
        let output = zeros([tokens, 4]);
        for (const [index, expert] of experts.entries()) {
          const mine = choice.eq(index);
          const gate = scores.slice(1, index, index + 1);
          if (sparse) {
            const places = mine.nonzero().flatten();
            const rows = expert
              .forward(input.indexSelect(0, places))
              .mul(gate.indexSelect(0, places));
            output = output.indexAdd(0, places, rows);
          } else
            output = output.add(
              expert
                .forward(input)
                .mul(gate)
                .mul(mine.to('f32').reshape([tokens, 1])),
            );
        }
        const loss = output.sub(input.tanh()).square().mean();
        optimizer.zeroGrad();
        loss.backward();
        await optimizer.step();
        losses.push(await loss.item());
      }
      return losses;
    };
    const [sparse, dense] = [await run(true), await run(false)];
    sparse.forEach((loss, step) => expect(loss).toBeCloseTo(dense[step] ?? NaN, 5));
  });

  it('are refused where their number has to be known, or is another one', async () => {
    const rows = x().takeRows(tensor(2, 'i32'));
    expect(() => rows.reshape([2, 1])).toThrow(ShapeError);
    expect(() => rows.add(x())).toThrow(ShapeError);
    expect(() => rows.add(x().takeRows(tensor(3, 'i32')))).toThrow(/computed apart/);
    expect(() => rows.slice(0, 0, 1)).toThrow(ShapeError);
    expect(() => rows.pad([1], [0])).toThrow(ShapeError);
    await expect(rows.realize()).rejects.toThrow(/number of rows that only a run knows/);
    await expect(x().takeRows(tensor(7, 'i32')).data()).rejects.toThrow(
      'takeRows of 7 rows: there are 6',
    );
  });
});
