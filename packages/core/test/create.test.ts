import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { Generator } from '../src/random/generator.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError, DTypeError, ShapeError } from '../src/spec/errors.ts';
import { fullLike, onesLike, tensor, zeros, zerosLike } from '../src/tensor/create.ts';
import { rand, randint, randn, randnLike, randperm } from '../src/random/create-random.ts';
import { arange, eye, linspace, meshgrid } from '../src/tensor/create-ranges.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter() }));

async function numbers(x: Tensor): Promise<number[]> {
  return Array.from(await x.data(), Number);
}

describe('a tensor of nested arrays', () => {
  test('gets gradients if it is made so', async () => {
    const x = tensor([2, 3], 'f32', { requiresGrad: true });
    x.square().sum().backward();
    expect(x.grad && (await numbers(x.grad))).toEqual([4, 6]);
    expect(tensor([2, 3], 'f32').requiresGrad).toBe(false);
    expect(() => tensor([2, 3], 'i32', { requiresGrad: true })).toThrow(DTypeError);
    expect(() => tensor([2, 3], 'f32', { requires_grad: true } as object)).toThrow('requires_grad');
  });
});

describe('ranges are those of PyTorch', () => {
  test('arange of whole numbers is i32, of others f32, also downwards', async () => {
    expect(arange(3).dtype).toBe('i32');
    expect(await numbers(arange(3))).toEqual([0, 1, 2]);
    expect(await numbers(arange(5, -5, -3))).toEqual([5, 2, -1, -4]);
    expect(await numbers(arange(0.5, 3))).toEqual([0.5, 1.5, 2.5]);
    const tenths = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9].map(Math.fround);
    expect(await numbers(arange(0, 1, 0.1))).toEqual(tenths);
    expect(arange(0, 3, 1, 'f32').dtype).toBe('f32');
    expect(arange(2, 2).shape).toEqual([0]);
  });

  test('linspace has both ends exactly, and of integers truncates', async () => {
    expect(await numbers(linspace(-1, 2, 7))).toEqual([-1, -0.5, 0, 0.5, 1, 1.5, 2]);
    expect(await numbers(linspace(0, 10, 4, 'i32'))).toEqual([0, 3, 6, 10]);
    expect(await numbers(linspace(3, 9, 1))).toEqual([3]);
    expect(linspace(0, 1, 0).shape).toEqual([0]);
  });

  test('eye, and grids in both orders', async () => {
    expect(await numbers(eye(2, 3))).toEqual([1, 0, 0, 0, 1, 0]);
    const [a, b] = [tensor([1, 2]), tensor([3, 4, 5])];
    const [rows, columns] = meshgrid([a, b]);
    expect(rows && (await numbers(rows))).toEqual([1, 1, 1, 2, 2, 2]);
    expect(columns && (await numbers(columns))).toEqual([3, 4, 5, 3, 4, 5]);
    const [across] = meshgrid([a, b], { indexing: 'xy' });
    expect(across?.shape).toEqual([3, 2]);
    expect(across && (await numbers(across))).toEqual([1, 2, 1, 2, 1, 2]);
  });

  test('what is like another tensor has its shape and dtype', async () => {
    const like = zeros([2], 'i32');
    expect(onesLike(like).dtype).toBe('i32');
    expect(zerosLike(like, 'f32').dtype).toBe('f32');
    expect(await numbers(fullLike(like, 7))).toEqual([7, 7]);
  });

  test('a step that does not lead to the end, and grids of matrices, are errors', () => {
    expect(() => arange(0, 5, -1)).toThrow(ConfigError);
    expect(() => arange(0, 5, 0)).toThrow('a step of 0');
    expect(() => arange(Number.NaN)).toThrow('a finite number');
    expect(() => meshgrid([zeros([2, 2])])).toThrow(ShapeError);
  });
});

describe('random tensors', () => {
  test('are what PyTorch draws after manual_seed(42), one after the other', async () => {
    manualSeed(42);
    expect(await numbers(rand([2, 2]))).toEqual([
      0.8822692632675171, 0.9150039553642273, 0.38286375999450684, 0.9593056440353394,
    ]);
    expect(await numbers(randn([3]))).toEqual([
      0.23446236550807953, 0.23033303022384644, -1.1228563785552979,
    ]);
    expect(await numbers(randint(-5, 5, [4]))).toEqual([-5, -1, -4, -3]);
    expect(await numbers(randperm(6))).toEqual([5, 1, 0, 4, 2, 3]);
    const seventeen = await numbers(randn([17]));
    expect(seventeen.slice(-2)).toEqual([1.1789509057998657, -0.43445441126823425]);
  });

  test('come from the generator that is given', async () => {
    const drawn = await numbers(randnLike(zeros([2, 9]), { generator: new Generator(7) }));
    expect(drawn).toEqual(Array.from(new Generator(7).randn(18)));
  });
});
