import { checkGradients, describeDifference, interpreter } from '@shardwise/testing';
import * as fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { activationBytes } from '../src/tensor/activation-bytes.ts';
import {
  binaryCrossEntropyWithLogits,
  crossEntropy,
  embedding,
  l1Loss,
  mseLoss,
  nllLoss,
  scaledDotProductAttention,
} from '../src/nn/functional.ts';
import { Generator } from '../src/random/generator.ts';
import { setRank } from '../src/rank.ts';
import { elementCount } from '../src/base/shape.ts';
import type { Shape } from '../src/spec/dtype.ts';
import { ConfigError, ShapeError } from '../src/spec/errors.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { operationsOf } from './graph-support.ts';

beforeEach(() => setRank({ device: interpreter() }));

async function values(x: Tensor | null): Promise<number[]> {
  return x === null ? [] : Array.from(await x.data(), Number);
}

function random(shape: Shape, seed: number): Tensor {
  return fromData(new Generator(seed).randn(elementCount(shape)), shape, 'f32');
}

async function expectClose(actual: Tensor, expected: readonly number[]): Promise<void> {
  expect(
    describeDifference(await values(actual), expected, { rtol: 1e-5, atol: 1e-5 }),
  ).toBeUndefined();
}

test('padding that counts from the end is the row that it names, as in PyTorch', async () => {
  const weight = random([3, 2], 1).requiresGrad_();
  embedding(tensor([0, 2, 2], 'i32'), weight, -1)
    .sum()
    .backward();
  expect(await values(weight.grad)).toEqual([1, 1, 0, 0, 0, 0]);
});

describe('crossEntropy', () => {
  const logits = tensor([
    [1, 2, 3],
    [0, 0, 0],
    [5, 1, 1],
  ]);
  const row = (x: readonly number[]): number[] => {
    const total = Math.log(x.reduce((sum, v) => sum + Math.exp(v), 0));
    return x.map((v) => v - total);
  };
  const table = [row([1, 2, 3]), row([0, 0, 0]), row([5, 1, 1])];
  const lossAt = (r: number, c: number): number => -(table[r]?.[c] ?? Number.NaN);
  const targets = tensor([2, 0, 1], 'i32');
  const all = [lossAt(0, 2), lossAt(1, 0), lossAt(2, 1)];
  const sum = all.reduce((a, b) => a + b);

  test('is minus the log-probability of the target', async () => {
    await expectClose(crossEntropy(logits, targets, { reduction: 'none' }), all);
    await expectClose(crossEntropy(logits, targets, { reduction: 'sum' }), [sum]);
    await expectClose(crossEntropy(logits, targets), [sum / 3]);
  });

  test('takes any leading dims', async () => {
    const losses = crossEntropy(logits.reshape([1, 3, 3]), targets.reshape([1, 3]), {
      reduction: 'none',
    });
    expect(losses.shape).toEqual([1, 3]);
    await expectClose(losses, all);
  });

  test('leaves out ignored targets, in the mean too', async () => {
    const some = tensor([2, -100, 1], 'i32');
    await expectClose(crossEntropy(logits, some), [(lossAt(0, 2) + lossAt(2, 1)) / 2]);
    await expectClose(crossEntropy(logits, some, { reduction: 'none' }), [
      lossAt(0, 2),
      0,
      lossAt(2, 1),
    ]);
    await expectClose(crossEntropy(logits, targets, { ignoreIndex: 1 }), [
      (lossAt(0, 2) + lossAt(1, 0)) / 2,
    ]);
  });

  test('of ignored targets only is NaN, as in PyTorch', async () => {
    expect(await crossEntropy(logits, tensor([-100, -100, -100], 'i32')).item()).toBeNaN();
  });

  test('with label smoothing mixes in the mean over classes', async () => {
    const mixed = all.map(
      (loss, r) => 0.9 * loss - (0.1 * (table[r] ?? []).reduce((a, b) => a + b)) / 3,
    );
    await expectClose(
      crossEntropy(logits, targets, { labelSmoothing: 0.1, reduction: 'none' }),
      mixed,
    );
    expect(() => crossEntropy(logits, targets, { labelSmoothing: 2 })).toThrow(ConfigError);
  });

  test('has the gradient (softmax - target) / n', async () => {
    const x = tensor([
      [1, 2, 3],
      [0, 0, 0],
    ]).requiresGrad_();
    crossEntropy(x, tensor([2, -100], 'i32')).backward();
    const expected = (table[0] ?? []).map((l, c) => Math.exp(l) - (c === 2 ? 1 : 0));
    await expectClose(x.grad ?? x, [...expected, 0, 0, 0]);
  });

  test('is exact for logits that would overflow', async () => {
    await expectClose(
      crossEntropy(
        tensor([
          [1000, 0],
          [0, -1000],
        ]),
        tensor([0, 1], 'i32'),
        { reduction: 'none' },
      ),
      [0, 1000],
    );
  });

  test('refuses targets that are not one per row', () => {
    expect(() => crossEntropy(logits, tensor([[0, 1, 2]], 'i32'))).toThrow(ShapeError);
  });

  test('is nllLoss of the log-softmax', async () => {
    await expectClose(nllLoss(logits.logSoftmax(), targets), [sum / 3]);
  });
});

describe('losses of numbers', () => {
  const [x, y] = [tensor([1, 5]), tensor([2, 2])];

  test('mseLoss', async () => {
    expect(await values(mseLoss(x, y))).toEqual([5]);
    expect(await values(mseLoss(x, y, { reduction: 'sum' }))).toEqual([10]);
  });

  test('l1Loss', async () => {
    expect(await values(l1Loss(x, y, { reduction: 'none' }))).toEqual([1, 3]);
  });

  test('binaryCrossEntropyWithLogits is -t log p - (1 - t) log (1 - p), exact for large logits', async () => {
    const p = 1 / (1 + Math.exp(-2));
    const expected = -0.3 * Math.log(p) - 0.7 * Math.log(1 - p);
    await expectClose(binaryCrossEntropyWithLogits(tensor([2]), tensor([0.3])), [expected]);
    const large = binaryCrossEntropyWithLogits(tensor([500, -500]), tensor([0, 0]), {
      reduction: 'none',
    });
    await expectClose(large, [500, 0]);
  });

  test('refuse shapes that would broadcast', () => {
    expect(() => mseLoss(tensor([[1], [2]]), tensor([1, 2]))).toThrow(ShapeError);
  });
});

describe('scaledDotProductAttention', () => {
  /** Computes attention by its definition, one query at a time. */
  function reference(
    [q, k, v]: readonly [number[], number[], number[]],
    [B, H, G, T, S, D]: readonly [number, number, number, number, number, number],
    visible: (t: number, s: number) => boolean,
  ): number[] {
    const out: number[] = [];
    for (let b = 0; b < B; b++) {
      for (let h = 0; h < H; h++) {
        const g = Math.floor(h / (H / G));
        for (let t = 0; t < T; t++) {
          const scores = Array.from({ length: S }, (_, s) => {
            let dot = 0;
            for (let d = 0; d < D; d++)
              dot +=
                (q[((b * H + h) * T + t) * D + d] ?? 0) * (k[((b * G + g) * S + s) * D + d] ?? 0);
            return visible(t, s) ? Math.exp(dot / Math.sqrt(D)) : 0;
          });
          const total = scores.reduce((a, x) => a + x);
          for (let d = 0; d < D; d++) {
            out.push(
              scores.reduce(
                (a, x, s) => a + (x / total) * (v[((b * G + g) * S + s) * D + d] ?? 0),
                0,
              ),
            );
          }
        }
      }
    }
    return out;
  }

  test('is the definition, for any sizes, groups and masks', async () => {
    const size = fc.integer({ min: 1, max: 3 });
    await fc.assert(
      fc.asyncProperty(
        size,
        size,
        size,
        size,
        size,
        size,
        fc.boolean(),
        async (B, G, perGroup, T, S, D, causal) => {
          const H = G * perGroup;
          const [q, k, v] = [
            random([B, H, T, D], 1),
            random([B, G, S, D], 2),
            random([B, G, S, D], 3),
          ];
          const y = scaledDotProductAttention(q, k, v, { causal });
          expect(y.shape).toEqual([B, H, T, D]);
          const data = [await values(q), await values(k), await values(v)] as const;
          await expectClose(
            y,
            reference(data, [B, H, G, T, S, D], (t, s) => !causal || s <= t),
          );
        },
      ),
      { numRuns: 25 },
    );
  });

  test('takes a bool mask, or one that is added', async () => {
    const [q, k, v] = [random([1, 2, 2, 3], 1), random([1, 2, 3, 3], 2), random([1, 2, 3, 3], 3)];
    const data = [await values(q), await values(k), await values(v)] as const;
    const mask = tensor([
      [true, false, true],
      [false, true, true],
    ]);
    const seen = [
      [0, 2],
      [1, 2],
    ];
    const expected = reference(data, [1, 2, 2, 2, 3, 3], (t, s) => seen[t]?.includes(s) ?? false);
    await expectClose(scaledDotProductAttention(q, k, v, { mask }), expected);
    const added = tensor([
      [0, -1e9, 0],
      [-1e9, 0, 0],
    ]);
    await expectClose(scaledDotProductAttention(q, k, v, { mask: added }), expected);
  });

  test('takes a range of keys for each query, beside a mask and causality, with the gradients of a mask', async () => {
    const leaves = (): Tensor[] =>
      [1, 2, 3].map((seed) => random([2, 2, 4, 3], seed).requiresGrad_());
    // Two documents in the first row, and a window of two keys in the second one. Ranges may leave the keys.
    const keyRanges = tensor(
      [
        [
          [0, 3],
          [0, 3],
          [0, 3],
          [3, 4],
        ],
        [
          [-1, 1],
          [0, 2],
          [1, 3],
          [2, 9],
        ],
      ],
      'i32',
    );
    const seen = (item: number, t: number, s: number): boolean =>
      item === 0 ? (t < 3 ? s < 3 : s === 3) : s > t - 2 && s <= t;
    const hidden = (t: number, s: number): boolean => s === 1 && t !== 1;
    const gradients = async (of: Tensor[], options: object): Promise<number[]> => {
      const [q, k, v] = of;
      if (q === undefined || k === undefined || v === undefined) throw new RangeError('three');
      const y = scaledDotProductAttention(q, k, v, options);
      y.square().sum().backward();
      return (await Promise.all([y, ...of.map(({ grad }) => grad)].map((x) => values(x)))).flat();
    };
    for (const causal of [false, true]) {
      const whole = Array.from({ length: 2 }, (_, item) => [
        Array.from({ length: 4 }, (__, t) =>
          Array.from(
            { length: 4 },
            (___, s) => seen(item, t, s) && !hidden(t, s) && (!causal || s <= t),
          ),
        ),
      ]);
      const mask = tensor([
        Array.from({ length: 4 }, (_, t) => Array.from({ length: 4 }, (__, s) => !hidden(t, s))),
      ]);
      const expected = await gradients(leaves(), { mask: tensor(whole) });
      const found = await gradients(leaves(), { mask, keyRanges, causal });
      expect(describeDifference(found, expected, { atol: 1e-6 })).toBeUndefined();
    }
    const x = leaves()[0] ?? keyRanges;
    for (const wrong of [keyRanges.to('f32'), keyRanges.slice(1, 0, 1), keyRanges.slice(2, 0, 1)]) {
      for (const dropout of [0, 0.5]) {
        const options = { keyRanges: wrong, dropout };
        expect(() => scaledDotProductAttention(x, x, x, options)).toThrow(/attention/);
      }
    }
  });

  test('with dropout 1 sees nothing, and with a scale of 0 everything alike', async () => {
    const [q, v] = [
      random([1, 1, 2, 2], 1),
      tensor([
        [
          [
            [1, 2],
            [3, 6],
          ],
        ],
      ]),
    ];
    expect(await values(scaledDotProductAttention(q, q, v, { dropout: 1 }))).toEqual([0, 0, 0, 0]);
    await expectClose(scaledDotProductAttention(q, q, v, { scale: 0 }), [2, 4, 2, 4]);
  });

  test('has the gradient of finite differences', async () => {
    const shapes = [
      [1, 2, 3, 2],
      [1, 1, 3, 2],
      [1, 1, 3, 2],
    ] as const;
    const leaves = shapes.map((shape, i) => random(shape, i).requiresGrad_());
    const weights = random([1, 2, 3, 2], 9);
    const loss = ([q, k, v]: readonly Tensor[]): Tensor => {
      if (q === undefined || k === undefined || v === undefined)
        throw new RangeError('three inputs');
      return scaledDotProductAttention(q, k, v, { causal: true }).mul(weights).sum();
    };
    loss(leaves).backward();
    const gradients = await Promise.all(leaves.map(({ grad }) => values(grad)));
    const data = await Promise.all(leaves.map(async (x) => Float32Array.from(await values(x))));
    await checkGradients(
      (inputs) => loss(inputs.map((input, i) => fromData(input, shapes[i] ?? [], 'f32'))).item(),
      data,
      gradients,
      { rtol: 1e-2, atol: 2e-3 },
    );
  });

  test('is one operation, whose gradients keep nothing that is as large as the scores', () => {
    const [q, k, v] = [
      random([2, 4, 16, 4], 1),
      random([2, 2, 16, 4], 2),
      random([2, 2, 16, 4], 3),
    ].map((x) => x.requiresGrad_());
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three inputs');
    const loss = scaledDotProductAttention(q, k, v, { causal: true }).sum();
    expect(activationBytes(loss)).toBe(4 * (2 * 4 * 16 * 4));
    loss.backward();
    const operations = operationsOf(q.grad?.add(0) ?? null);
    expect(operations.filter((op) => /attention|matmul|softmax/.test(op))).toEqual([
      'attention',
      'attentionLogSumExp',
      'attentionQueryGrad',
    ]);
  });

  test('a query that may see no key has zeros and gives none, as in PyTorch', async () => {
    const [q, k, v] = [1, 2, 3].map((seed) => random([1, 1, 2, 2], seed).requiresGrad_());
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three inputs');
    const mask = tensor([
      [true, true],
      [false, false],
    ]);
    const y = scaledDotProductAttention(q, k, v, { mask });
    y.sum().backward();
    expect((await values(y)).slice(2)).toEqual([0, 0]);
    expect((await values(q.grad)).slice(2)).toEqual([0, 0]);
    const both = [...(await values(k.grad)), ...(await values(v.grad))];
    expect(both.every(Number.isFinite)).toBe(true);
  });

  test('a query that may see no key gives none where the mask is learnt, too', async () => {
    const [q, k, v] = [1, 2, 3].map((seed) => random([1, 1, 2, 2], seed).requiresGrad_());
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three inputs');
    const mask = tensor([
      [0.5, -1],
      [-Infinity, -Infinity],
    ]).requiresGrad_();
    scaledDotProductAttention(q, k, v, { mask }).square().sum().backward();
    expect((await values(q.grad)).slice(2)).toEqual([0, 0]);
    expect((await values(mask.grad)).slice(2)).toEqual([0, 0]);
    const all = await Promise.all([q, k, v, mask].map(({ grad }) => values(grad)));
    expect(all.flat().every(Number.isFinite)).toBe(true);
  });

  test('a mask that is learnt has the gradient of its sum with the scores', async () => {
    const [q, k, v] = [1, 2, 3].map((seed) => random([1, 2, 3, 2], seed));
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three inputs');
    const mask = random([2, 1, 3], 4).requiresGrad_();
    scaledDotProductAttention(q, k, v, { mask }).square().sum().backward();
    const same = random([2, 1, 3], 4).requiresGrad_();
    const scores = q.mul(1 / Math.sqrt(2)).matmul(k.transpose(2, 3));
    scores.add(same).softmax(3).matmul(v).square().sum().backward();
    await expectClose(mask.grad ?? v, await values(same.grad));
  });

  test('refuses inputs of other dims, and heads that do not divide', () => {
    const x = random([2, 3, 4], 1);
    expect(() => scaledDotProductAttention(x, x, x)).toThrow(ShapeError);
    expect(() =>
      scaledDotProductAttention(
        random([1, 3, 2, 2], 1),
        random([1, 2, 2, 2], 1),
        random([1, 2, 2, 2], 1),
      ),
    ).toThrow(ShapeError);
  });
});
