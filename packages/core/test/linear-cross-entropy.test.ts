import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { autocast } from '../src/graph/autocast.ts';
import * as functional from '../src/nn/functional.ts';
import { Generator } from '../src/random/generator.ts';
import { setRank } from '../src/rank.ts';
import { IndexError, ShapeError } from '../src/spec/errors.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter() }));

const [rows, features, classes] = [6, 5, 23];

function inputs(): { readonly x: Tensor; readonly weight: Tensor; readonly targets: Tensor } {
  const generator = new Generator(3);
  const draw = (shape: readonly [number, number]): Tensor =>
    fromData(generator.normal(shape[0] * shape[1]), [...shape], 'f32').requiresGrad_();
  const targets = tensor([0, 22, -100, 7, 8, 15], 'i32');
  return { x: draw([rows, features]), weight: draw([classes, features]), targets };
}

async function results(
  loss: (x: Tensor, weight: Tensor, targets: Tensor) => Tensor,
): Promise<readonly number[]> {
  const { x, weight, targets } = inputs();
  const value = loss(x, weight, targets);
  value.sum().backward();
  const parts = [value.flatten(), x.grad?.flatten(), weight.grad?.flatten()];
  const all: number[] = [];
  for (const part of parts) all.push(...Array.from((await part?.data()) ?? [], Number));
  return all;
}

describe('linearCrossEntropy', () => {
  const cases = [
    { tile: 1 },
    { tile: 7 },
    { tile: 23 },
    { tile: 100 },
    { tile: 8, reduction: 'none' },
    { tile: 8, reduction: 'sum' },
    { tile: 8, softcap: 1.5 },
    {},
  ] as const;

  test.each(cases)(
    'is crossEntropy of the whole logits, with its gradients: %o',
    async (options) => {
      const { softcap, tile: _, ...reduction } = { softcap: undefined, tile: 0, ...options };
      const found = await results((x, weight, targets) =>
        functional.linearCrossEntropy(x, weight, targets, options),
      );
      const expected = await results((x, weight, targets) => {
        const plain = functional.linear(x, weight);
        const logits = softcap === undefined ? plain : plain.div(softcap).tanh().mul(softcap);
        return functional.crossEntropy(logits, targets, reduction);
      });
      expect(found.length).toBe(expected.length);
      for (const [i, value] of expected.entries()) expect(found[i]).toBeCloseTo(value, 5);
    },
  );

  test.each([{ tile: 7 }, { tile: 8, softcap: 1.5, reduction: 'sum' }, {}] as const)(
    'adds a bias to the logits, which gets its gradient: %o',
    async (options) => {
      const { softcap, tile: _, ...reduction } = { softcap: undefined, tile: 0, ...options };
      const start = new Generator(5).normal(classes);
      const withBias = async (
        loss: (x: Tensor, weight: Tensor, targets: Tensor, bias: Tensor) => Tensor,
      ): Promise<readonly number[]> => {
        const bias = fromData(start, [classes], 'f32').requiresGrad_();
        const others = await results((...given) => loss(...given, bias));
        return [...others, ...Array.from((await bias.grad?.data()) ?? [], Number)];
      };
      const found = await withBias((x, weight, targets, bias) =>
        functional.linearCrossEntropy(x, weight, targets, { ...options, bias }),
      );
      const expected = await withBias((x, weight, targets, bias) => {
        const plain = functional.linear(x, weight, bias);
        const logits = softcap === undefined ? plain : plain.div(softcap).tanh().mul(softcap);
        return functional.crossEntropy(logits, targets, reduction);
      });
      expect(found.length).toBe(expected.length);
      for (const [i, value] of expected.entries()) expect(found[i]).toBeCloseTo(value, 5);
      const { x, weight, targets } = inputs();
      const bias = fromData(start, [classes], 'f32').slice(0, 1, classes);
      expect(() => functional.linearCrossEntropy(x, weight, targets, { bias })).toThrow(ShapeError);
    },
  );

  test('adds up the gradients of a weight that has other uses, as a tied embedding has', async () => {
    const tied =
      (tile: number | null) =>
      (x: Tensor, weight: Tensor, targets: Tensor): Tensor => {
        const hidden = x.add(functional.embedding(targets.maximum(0), weight));
        return tile === null
          ? functional.crossEntropy(functional.linear(hidden, weight), targets)
          : functional.linearCrossEntropy(hidden, weight, targets, { tile });
      };
    const [found, expected] = [await results(tied(8)), await results(tied(null))];
    for (const [i, value] of expected.entries()) expect(found[i]).toBeCloseTo(value, 5);
  });

  test('computes products of 16 bits inside autocast, and the loss in f32', async () => {
    const inside = (loss: () => Tensor): Tensor => autocast({ dtype: 'bf16' }, loss);
    const found = await results((x, weight, targets) =>
      inside(() => functional.linearCrossEntropy(x, weight, targets, { tile: 8 })),
    );
    const expected = await results((x, weight, targets) =>
      inside(() => functional.crossEntropy(functional.linear(x, weight), targets)),
    );
    // Gradients of logits are rounded to bf16, which keeps two to three digits.
    for (const [i, value] of expected.entries()) expect(found[i]).toBeCloseTo(value, 2);
    expect(found[0]).not.toBeCloseTo((await results(functional.linearCrossEntropy))[0] ?? NaN, 6);
  });

  test('refuses targets that are no classes, and features that do not fit', async () => {
    const { x, weight } = inputs();
    const outside = functional.linearCrossEntropy(x, weight, tensor([0, 1, 2, 3, 4, 23], 'i32'));
    await expect(outside.item()).rejects.toThrow(IndexError);
    expect(() =>
      functional.linearCrossEntropy(x.slice(1, 0, 4), weight, tensor([0], 'i32')),
    ).toThrow(ShapeError);
  });
});
