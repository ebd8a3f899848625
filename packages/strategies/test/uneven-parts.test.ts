import { fromData, type Layout, type Tensor } from '@shardwise/core';
import { distributeTensor } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { axesOf, values } from './ranks/distributed-tensor-values.ts';

type Program = (x: Tensor, y: Tensor, isDistributed: boolean) => Tensor;

interface Placed {
  readonly shape: readonly number[];
  readonly layout: Layout;
}

function leaf({ shape }: Placed, seed: number): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  return fromData(values(count, seed), shape, 'f32').requiresGrad_();
}

/** The result of a program and the gradients of its inputs, of whole tensors and of distributed ones. */
async function runs(
  ranks: number,
  [first, second]: readonly [Placed, Placed],
  program: Program,
): Promise<void> {
  const found = await onRanks(
    ranks,
    async () => {
      const results: number[][] = [];
      for (const isDistributed of [false, true]) {
        const [x, y] = [leaf(first, 1), leaf(second, 2)];
        const result = isDistributed
          ? program(distributeTensor(x, first.layout), distributeTensor(y, second.layout), true)
          : program(x, y, false);
        const whole = isDistributed ? result.fullTensor() : result;
        whole.square().sum().backward();
        const read = await Promise.all([whole, x.grad, y.grad].map(async (each) => each?.data()));
        results.push(read.flatMap((each) => Array.from(each ?? [], Number)));
      }
      return results;
    },
    { axes: axesOf(ranks) },
  );
  for (const [whole = [], distributed = []] of found) {
    expect(distributed).toHaveLength(whole.length);
    for (const [at, value] of whole.entries()) expect(distributed[at]).toBeCloseTo(value, 5);
  }
}

const rows: Layout = { dims: [['a'], [], []], partial: [] };

it('rows that 3 ranks do not divide are joined, gathered and moved: each rank has whole rows', async () => {
  const placed = { shape: [2, 3, 2], layout: rows };
  await runs(3, [placed, placed], (x, y) => x.reshape([6, 2]).mul(y.reshape([6, 2])));
});

it('an operation brings what it joins with such rows into the same chunks', async () => {
  const whole: Layout = { dims: [[], []], partial: [] };
  await runs(
    3,
    [
      { shape: [2, 3, 2], layout: rows },
      { shape: [6, 2], layout: whole },
    ],
    (x, y) => x.reshape([6, 2]).mul(y),
  );
});

it('such rows are redistributed to columns, and back into rows of 3', async () => {
  const placed = { shape: [2, 3, 4], layout: rows };
  const columns: Layout = { dims: [[], ['a']], partial: [] };
  await runs(3, [placed, placed], (x, y, isDistributed) => {
    const joined = x.mul(y).reshape([6, 4]);
    return (isDistributed ? joined.redistribute(columns) : joined).sin();
  });
});

it('ranks without elements take part in the messages of other ranks, forward and backward', async () => {
  // Of 3 rows or columns over 4 ranks, the last rank has none.
  const columns: Layout = { dims: [[], ['b']], partial: [] };
  const both: Layout = { dims: [['b'], ['a']], partial: [] };
  await runs(
    8,
    [
      { shape: [3, 3], layout: columns },
      { shape: [3, 3], layout: both },
    ],
    (x, y) => x.lerp(y, 0.25),
  );
});

it('a hook gets the gradient of a dim in sections in the order of the whole', async () => {
  const flat: Layout = { dims: [[]], partial: [] };
  const found = await onRanks(
    2,
    async () => {
      const x = leaf({ shape: [3, 4], layout: flat }, 1);
      const factors = leaf({ shape: [12], layout: flat }, 2);
      // Each rank has two columns of each row.
      const joined = distributeTensor(x, { dims: [[], ['a']], partial: [] }).reshape([12]);
      const gradients: Tensor[] = [];
      joined.registerHook((gradient) => {
        gradients.push(gradient.fullTensor());
        return gradient.mul(2);
      });
      joined.mul(distributeTensor(factors, flat)).sum().backward();
      const read = await Promise.all(
        [gradients[0], factors, x.grad].map(async (each) => each?.data()),
      );
      return read.map((each) => Array.from(each ?? [], Number));
    },
    { axes: axesOf(2) },
  );
  for (const [seen, factors = [], gradient] of found) {
    expect(seen).toEqual(factors);
    expect(gradient).toEqual(factors.map((value) => 2 * value));
  }
});

it('whether a value can be read after an update does not depend on the part of the rank', async () => {
  const readable = async (columns: number): Promise<readonly boolean[]> =>
    onRanks(
      2,
      async () => {
        const x = leaf({ shape: [3, columns], layout: { dims: [[], []], partial: [] } }, 1);
        // Of 3 rows, the first rank has 2.
        const rows = distributeTensor(x, { dims: [['a'], []], partial: [] }).mul(2);
        x.assign(x.mul(3));
        await x.data();
        return rows
          .toLocal()
          .data()
          .then(
            () => true,
            () => false,
          );
      },
      { axes: axesOf(2) },
    );
  expect(await readable(129)).toEqual([false, false]);
  expect(await readable(85)).toEqual([true, true]);
});

it('an operation that needs columns whole asks for a layout to which such rows can be redistributed', async () => {
  const x = { shape: [2, 3, 4], layout: { dims: [['b'], [], ['a']], partial: [] } };
  const found = await onRanks(
    6,
    async () => {
      const joined = distributeTensor(leaf(x, 1), x.layout).reshape([6, 4]);
      let refusal = '';
      try {
        joined.softmax(1);
      } catch (error) {
        refusal = String(error);
      }
      const rows = joined.redistribute({ dims: [['b'], []], partial: [] });
      return [refusal, (await rows.softmax(1).fullTensor().data()).length];
    },
    { axes: axesOf(6) },
  );
  for (const [refusal, length] of found) {
    expect(refusal).toMatch(/Redistribute that input to shard\(0: b\)$/);
    expect(length).toBe(24);
  }
});
