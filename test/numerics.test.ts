import { cpu } from '@shardwise/backend-cpu';
import {
  DTypeError,
  fromData,
  full,
  nn,
  ones,
  setRank,
  ShapeError,
  tensor,
  zeros,
} from '@shardwise/core';
import * as sw from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

const LARGEST = 2 ** 31 - 1;

const i32 = (...values: number[]): sw.Tensor => tensor(values, 'i32');
const half = (value: number, count: number): sw.Tensor => full([count], value).to('f16');

async function numbers(x: sw.Tensor): Promise<number[]> {
  return Array.from(await x.data(), Number);
}

describe.each([
  ['the CPU backend', () => cpu()],
  ['the interpreter', () => Promise.resolve(interpreter())],
] as const)('on %s', (_, make) => {
  beforeEach(async () => setRank({ device: await make() }));

  describe('integers', () => {
    it('become floats where a number has a fraction, and stay integers where it has none', async () => {
      expect(await numbers(i32(1, 2).mul(0.5))).toEqual([0.5, 1]);
      expect(await numbers(i32(0, 1, 2).lt(0.5))).toEqual([1, 0, 0]);
      expect(await numbers(i32(3, -3).clamp(-0.5, 2))).toEqual([2, -0.5]);
      const tripled = i32(1, 2).mul(3);
      expect([tripled.dtype, await numbers(tripled)]).toEqual(['i32', [3, 6]]);
    });

    it('divide to floats, or to integers by a rounding mode', async () => {
      expect(await numbers(i32(7, -7).div(2))).toEqual([3.5, -3.5]);
      expect(await numbers(i32(7, -7).div(2, { roundingMode: 'trunc' }))).toEqual([3, -3]);
      expect(await numbers(i32(7, -7).div(2, { roundingMode: 'floor' }))).toEqual([3, -4]);
      expect(await numbers(tensor([1, -1]).div(0.1, { roundingMode: 'floor' }))).toEqual([9, -10]);
    });

    it('go through functions of floats as f32', async () => {
      const names = [
        'exp',
        'log',
        'sqrt',
        'rsqrt',
        'sin',
        'cos',
        'tanh',
        'erf',
        'sigmoid',
      ] as const;
      for (const name of names) {
        const [found, expected] = [i32(4, 1)[name](), tensor([4, 1])[name]()];
        expect([name, found.dtype, await numbers(found)]).toEqual([
          name,
          'f32',
          await numbers(expected),
        ]);
        expect(tensor([true])[name]().dtype).toBe('f32');
      }
    });

    it('stay what they are where nothing is rounded', async () => {
      expect(await numbers(i32(-2, 3).floor())).toEqual([-2, 3]);
      expect(await numbers(i32(-2, 3).relu())).toEqual([0, 3]);
      expect(await numbers(i32(-2, 3).square())).toEqual([4, 9]);
      expect(await numbers(tensor([true, false]).square())).toEqual([1, 0]);
      expect(await numbers(i32(2, 0).logicalNot())).toEqual([0, 1]);
    });

    it('add up in i32, wrap around, and saturate nowhere', async () => {
      expect(await full([3], LARGEST, 'i32').sum().item()).toBe(LARGEST - 2);
      expect(await numbers(full([3, 2], LARGEST, 'i32').sum(0))).toEqual(
        Array(2).fill(LARGEST - 2),
      );
      expect(await numbers(full([3], LARGEST, 'i32').cumsum(0))).toEqual([
        LARGEST,
        -2,
        LARGEST - 2,
      ]);
      const count = tensor([true, true, false]).sum();
      expect([count.dtype, await count.item()]).toEqual(['i32', 2]);
      expect(await fromData(Uint8Array.of(200, 100), [2], 'u8').sum().item()).toBe(300);
    });

    it('have a minimum, also where the smallest of all is among them', async () => {
      expect(
        await i32(-(2 ** 31), 5)
          .min()
          .item(),
      ).toBe(-(2 ** 31));
      expect(await fromData(Uint8Array.of(3, 255), [2], 'u8').min().item()).toBe(3);
      expect(await tensor([true, false]).min().item()).toBe(0);
      expect(await tensor([true, false]).max().item()).toBe(1);
    });
  });

  describe('long and narrow sums', () => {
    it('keep counting beyond 2^24', async () => {
      const terms = tensor([2 ** 24, 1, 1, 1, 1]);
      expect((await numbers(terms.cumsum(0))).at(-1)).toBe(2 ** 24 + 4);
    });

    it('keep their digits over many rows', async () => {
      const total = await numbers(full([100_000, 2], 0.1).sum(0));
      for (const sum of total) expect(Math.abs(sum - 10_000)).toBeLessThan(0.01);
    });

    it('of f16 are taken in f32, so that a mean does not pass through infinity', async () => {
      const many = half(1, 100_000);
      expect(await many.mean().item()).toBe(1);
      expect(await nn.functional.mseLoss(many, many.sub(1)).item()).toBe(1);
      expect(await many.variance().item()).toBe(0);
      // The squares overflow in f16, but their mean does not.
      const wide = tensor([300, -300, 0, 0, 0, 0, 0, 0, 0, 0]).to('f16');
      expect(await wide.variance(undefined, { correction: 0 }).item()).toBe(18_000);
    });

    it('of f16 losses have a mean, also where their sum is beyond f16', async () => {
      const losses = nn.functional.crossEntropy(zeros([70_000, 4], 'f16'), zeros([70_000], 'i32'));
      expect([losses.dtype, await losses.item()]).toEqual(['f16', Math.f16round(Math.log(4))]);
    });

    it('of pools of f16 are taken in f32', async () => {
      const image = full([1, 1, 3, 3], 60_000).to('f16');
      expect(await nn.functional.avgPool2d(image, 3).item()).toBe(60_000);
    });

    it('of f16 gradients have a norm, which squares of f16 have not', async () => {
      const x = fromData(new Uint16Array(4).fill(0x3c00), [4], 'f16').requiresGrad_();
      x.mul(half(300, 4)).sum().backward();
      expect(await sw.optim.totalGradNorm([x]).item()).toBe(600);
    });

    it('of f16 and bf16 keep the digits of a number', async () => {
      expect(await full([1], 0.001).to('f16').mul(1e5).item()).toBeCloseTo(100.0625, 6);
      expect(
        await full([1], 1)
          .to('bf16')
          .mul(1 / 3)
          .item(),
      ).toBe(0.333984375);
    });
  });

  describe('gradients', () => {
    it('of cumsum are sums from the end, in which an infinity stays where it is', async () => {
      const x = tensor([1, 2, 3, 4]).requiresGrad_();
      x.cumsum(0)
        .mul(tensor([1e-3, 1e8, 1e-3, 1]))
        .sum()
        .backward();
      expect(await x.grad?.data()).toEqual(Float32Array.of(1e8, 1e8, 1.001, 1));
      x.zeroGrad();
      x.cumsum(0)
        .mul(tensor([1, Infinity, 1, 2]))
        .sum()
        .backward();
      expect(await x.grad?.data()).toEqual(Float32Array.of(Infinity, Infinity, 3, 2));
    });

    it('of a zero-initialised classifier are those of the loss: sigmoid(0) - target', async () => {
      const logits = tensor([0, 0, 0]).requiresGrad_();
      const targets = tensor([0, 1, 0.5]);
      nn.functional.binaryCrossEntropyWithLogits(logits, targets, { reduction: 'sum' }).backward();
      expect(await logits.grad?.data()).toEqual(Float32Array.of(0.5, -0.5, 0));
    });

    it('have the dtype of what they belong to, also where an op mixes two', async () => {
      const x = fromData(Uint16Array.of(0x3f80, 0x4000), [1, 2], 'bf16').requiresGrad_();
      const weight = tensor([1, 1]).requiresGrad_();
      x.layerNorm(weight, zeros([2]))
        .sum()
        .backward();
      expect([x.grad?.dtype, weight.grad?.dtype]).toEqual(['bf16', 'f32']);
      expect(await weight.grad?.data()).toEqual(Float32Array.of(-1, 1));
    });

    it('of sigmoid, silu and mish keep their digits where they nearly vanish, also beside products', async () => {
      const at = [-16, -20, -30];
      const x = tensor([at]).requiresGrad_();
      const eye = tensor([
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
      ]);
      const slopes = {
        sigmoid: (e: number) => e,
        silu: (e: number, v: number) => e * (1 + v),
        mish: (e: number, v: number) => e * (1 + v),
      };
      for (const name of ['sigmoid', 'silu', 'mish'] as const) {
        x.zeroGrad();
        x.matmul(eye)[name]().matmul(eye).sum().backward();
        const found = await numbers(x.grad ?? x);
        const ratios = at.map((v, i) => (found[i] ?? Number.NaN) / slopes[name](Math.exp(v), v));
        for (const ratio of ratios) expect(ratio).toBeCloseTo(1, 4);
      }
    });

    it('know the sign of a zero that tril and where have passed on', async () => {
      const x = tensor([[-0, -0]]).requiresGrad_();
      const slope = tensor([1, -1]);
      x.tril(1).reciprocal().mul(slope).sum().backward();
      expect(await x.grad?.data()).toEqual(Float32Array.of(-Infinity, Infinity));
      const isFirst = ones([1, 2]).tril().gt(0);
      const [zeros, fives] = [tensor([[-0, -0]]), tensor([[5, 5]])];
      expect(await isFirst.where(zeros, fives).data()).toEqual(Float32Array.of(-0, 5));
      expect(await isFirst.where(fives, zeros).data()).toEqual(Float32Array.of(5, -0));
    });

    it('of clamp are 1 at its bounds', async () => {
      const x = tensor([-2, -1, 0, 1, 2]).requiresGrad_();
      x.clamp(-1, 1).sum().backward();
      expect(await x.grad?.data()).toEqual(Float32Array.of(0, 1, 1, 1, 0));
    });
  });

  describe('NaN', () => {
    it('is the maximum of a window, a row and a column', async () => {
      const image = tensor([
        [
          [
            [1, NaN, 3],
            [0, 1, 1],
          ],
        ],
      ]);
      expect(await numbers(nn.functional.maxPool2d(image, 2, { stride: 1 }))).toEqual([NaN, NaN]);
      const rows = tensor([
        [1, NaN, 2, NaN],
        [3, 3, 0, 1],
      ]);
      expect(await numbers(rows.argMax(1))).toEqual([1, 0]);
      expect(await numbers(rows.transpose(0, 1).argMax(0))).toEqual([1, 0]);
      expect(await numbers(rows.transpose(0, 1).reshape([2, 4]).argMax(0))).toEqual([1, 0, 0, 0]);
    });
  });

  it('softmax of empty rows is empty', async () => {
    const x = zeros([2, 0]).requiresGrad_();
    const y = x.add(1).softmax(-1).mul(x.add(1).logSoftmax(-1));
    y.sum().backward();
    expect([y.shape, await numbers(y)]).toEqual([[2, 0], []]);
    expect(x.grad?.shape).toEqual([2, 0]);
  });

  describe('what is only stored', () => {
    it('is converted: i64, f64, u8, f16 and bf16', async () => {
      const longs = fromData(BigInt64Array.of(2n ** 53n + 2n, -7n), [2], 'i64');
      expect(await numbers(longs.to('f32'))).toEqual([2 ** 53, -7]);
      expect(await numbers(longs.to('i32'))).toEqual([2, -7]);
      expect(await numbers(longs.mul(0.5))).toEqual([2 ** 52, -3.5]);
      const doubles = fromData(Float64Array.of(0.1, -1e300), [2], 'f64');
      expect(await numbers(doubles.to('f32'))).toEqual([Math.fround(0.1), -Infinity]);
      expect(await numbers(doubles.to('f32').to('f64'))).toEqual([Math.fround(0.1), -Infinity]);
      expect(await numbers(longs.to('bf16').to('i64'))).toEqual([2 ** 53, -7]);
    });

    it('is moved without a conversion', async () => {
      const longs = fromData(BigInt64Array.of(2n ** 62n + 1n, 1n, -3n, 4n), [2, 2], 'i64');
      const moved = longs.transpose(0, 1).slice(1, 0, 1).reshape([2]);
      expect(await moved.data()).toEqual(BigInt64Array.of(2n ** 62n + 1n, 1n));
      const padded = sw.concat([moved, full([1], 9, 'i64')]);
      expect(await padded.indexSelect(0, i32(2, 0)).data()).toEqual(
        BigInt64Array.of(9n, 2n ** 62n + 1n),
      );
    });

    it('is a number in item()', async () => {
      expect(await tensor(1.5).to('f16').item()).toBe(1.5);
      expect(await tensor(-2.5).to('bf16').item()).toBe(-2.5);
      expect(await fromData(BigInt64Array.of(7n), [], 'i64').item()).toBe(7);
      const large = fromData(BigInt64Array.of(2n ** 60n), [], 'i64');
      await expect(large.item()).rejects.toThrow(DTypeError);
    });
  });

  it('u8 computes in i32 and wraps around', async () => {
    const bytes = fromData(Uint8Array.of(250, 3), [2], 'u8');
    expect(await numbers(bytes.add(10))).toEqual([4, 13]);
    expect(await numbers(bytes.mul(bytes))).toEqual([36, 9]);
    expect(await numbers(bytes.lt(300))).toEqual([1, 1]);
  });

  it('a tensor without dims has the dims 0 and -1, as in PyTorch', async () => {
    const x = tensor(3);
    expect(await x.softmax().item()).toBe(1);
    expect(await x.logSoftmax(0).item()).toBe(0);
    expect(await x.sum(0).item()).toBe(3);
    expect(await x.max(-1).item()).toBe(3);
    expect(await x.argMax(0).item()).toBe(0);
    expect(await x.cumsum(0).item()).toBe(3);
    expect(() => x.softmax(1)).toThrow(ShapeError);
  });
});

describe('refused is', () => {
  beforeEach(() => setRank({ device: interpreter() }));

  it.each([
    ['the mean of integers', () => i32(0, 1, 2, 3).mean(), /mean of an i32 tensor.*\.to\('f32'\)/],
    ['their variance', () => i32(0, 1).variance(), /variance of an i32 tensor/],
    ['their softmax', () => i32(0, 1).softmax(), /softmax of an i32 tensor/],
    ['their gelu', () => i32(0, 1).gelu(), /gelu of an i32 tensor/],
    [
      'the product of matrices of integers',
      () => zeros([2, 2], 'i32').matmul(zeros([2, 2], 'i32')),
      /matmul of an i32 tensor/,
    ],
    ['a negative mask', () => tensor([true]).neg(), /neg of a bool tensor/],
    [
      'the difference of masks',
      () => tensor([true]).sub(tensor([true])),
      /sub of a bool tensor.*logicalNot/,
    ],
    ['a negative power of integers', () => i32(2).pow(-1), /pow of an i32 tensor by -1/],
    [
      'an integer by 0',
      () => i32(2).div(0, { roundingMode: 'floor' }),
      /div of an i32 tensor by 0/,
    ],
    ['a number beyond i32', () => i32(2).add(2 ** 31), /add of an i32 tensor and 2147483648/],
    ['a sum of i64', () => zeros([2], 'i64').sum(), /sum of an i64 tensor.*\.to\('i32'\)/],
    ['arithmetic on i64', () => zeros([2], 'i64').add(1), /add of an i64 tensor/],
    [
      'a concatenation of two dtypes',
      () => sw.concat([ones([1]), i32(1)]),
      /concat of f32 \[1\] and i32 \[1\]: two dtypes/,
    ],
    ['a fraction in integers', () => full([1], 1.5, 'i32'), /1.5 as an element of i32/],
    ['a fraction among integers', () => tensor([1, 0.5], 'i32'), /0.5 as an element of i32/],
    ['a number among bools', () => tensor([2], 'bool'), /2 as an element of bool/],
    ['a number beyond u8', () => full([1], 256, 'u8'), /u8 holds whole numbers from 0 to 255/],
    ['an integer that trains', () => i32(1).requiresGrad_(), /requiresGrad_ of an i32 tensor/],
  ] as const)('%s', (_title, build, message) => {
    expect(() => build()).toThrow(message);
    expect(() => build()).toThrow(/\. [A-Z]/);
  });

  it.each([
    ['the product of vectors of different lengths', () => tensor([2]).matmul(ones([3]))],
    ['a vector transposed', () => ones([3]).matmul(ones([1, 3]), { transposeA: true })],
    ['a window beyond the image', () => nn.functional.maxPool2d(ones([1, 1, 2, 2]), 3)],
    ['a mean of windows beyond the image', () => nn.functional.avgPool2d(ones([1, 1, 2, 2]), 3)],
    ['dims that are merged from behind', () => ones([2, 3]).flatten(1, 0)],
    ['a negative size', () => ones([1]).expand([-1])],
    ['a negative padding', () => ones([2]).pad([-1], [0])],
    ['a padding of other dims', () => ones([2, 2]).pad([1], [1])],
  ] as const)('%s', (_title, build) => {
    expect(() => build()).toThrow(ShapeError);
  });

  it('computing in f64 on a device that does not', async () => {
    setRank({ device: await cpu() });
    const sum = fromData(Float64Array.of(1, 2), [2], 'f64').sum();
    await expect(sum.item()).rejects.toThrow(
      /sum at .*numerics\.test\.ts:\d+:\d+ of an f64 tensor of shape \[2\]: this device computes with f32, i32, bool\. .*\.to\('f32'\)/,
    );
  });

  it('backward from integers, in which no gradient flows', () => {
    const x = tensor([1, 2]).requiresGrad_();
    expect(x.argMax(0).requiresGrad).toBe(false);
    expect(() => x.gt(1).sum().backward()).toThrow(/no tensor that requires a gradient/);
  });
});
