import { describe, expect, test } from 'vitest';
import { ConfigError, ShapeError } from '../src/spec/errors.ts';
import { Generator } from '../src/random/generator.ts';
import * as init from '../src/random/init.ts';
import { golden, sha256 } from './golden/random.ts';

const nonlinearities = ['linear', 'sigmoid', 'tanh', 'relu', 'leakyRelu', 'selu'] as const;

function kaimingOptions(words: readonly string[]): init.KaimingOptions {
  const nonlinearity = nonlinearities.find((name) => words.includes(name));
  const a = words.map(Number).find((value) => !Number.isNaN(value));
  return {
    mode: words.includes('fanOut') ? 'fanOut' : 'fanIn',
    ...(nonlinearity === undefined ? {} : { nonlinearity }),
    ...(a === undefined ? {} : { a }),
  };
}

const functions: Record<
  string,
  (generator: Generator, words: readonly string[], shape: readonly number[]) => Float32Array[]
> = {
  linear: (generator, [inputs, outputs, bias]) =>
    layer(init.linear(generator, Number(inputs), Number(outputs), bias !== 'noBias')),
  conv2d: (generator, [, bias], shape) =>
    layer(init.convolution(generator, shape, bias === 'noBias' ? null : (shape[0] ?? 0))),
  embedding: (generator, [rows, columns, padding]) => {
    const index = padding === undefined ? undefined : Number(padding);
    return [init.embedding(generator, Number(rows), Number(columns), index)];
  },
  xavierUniform: (generator, [, gain = '1'], shape) => [
    init.xavierUniform(generator, shape, Number(gain)),
  ],
  xavierNormal: (generator, [, gain = '1'], shape) => [
    init.xavierNormal(generator, shape, Number(gain)),
  ],
  kaimingUniform: (generator, [, ...words], shape) => [
    init.kaimingUniform(generator, shape, kaimingOptions(words)),
  ],
  kaimingNormal: (generator, [, ...words], shape) => [
    init.kaimingNormal(generator, shape, kaimingOptions(words)),
  ],
  truncNormal: (generator, [, ...words], shape) => {
    const [mean = 0, std = 1, low = -2, high = 2] = words.map(Number);
    return [init.truncNormal(generator, shape, { mean, std, low, high })];
  },
};

function layer({ weight, bias }: init.LayerInit): Float32Array[] {
  return bias === undefined ? [weight] : [weight, bias];
}

describe('initial values are PyTorch’s', () => {
  test.each(golden.initialisation)('seed $seed: $init', ({ seed, init: name, result }) => {
    const [call = '', ...words] = name.split(' ');
    const shape = (words[0] ?? '').split(',').map(Number);
    const make = functions[call];
    if (make === undefined) throw new Error(`no function ${call}`);
    const values = make(new Generator(BigInt(seed)), words, shape);
    const expected = result.split(' | ');
    expect(values).toHaveLength(expected.length);
    values.forEach((value, i) => {
      const text = expected[i] ?? '';
      if (text.startsWith('sha256')) expect(sha256(value)).toBe(text);
      else expect([...value]).toEqual(text.split(' ').map((word) => Math.fround(Number(word))));
    });
  });

  test('of the published Linear(3, 2), seed 0, but for the roundings that PyTorch has since fused', () => {
    const { weight, bias } = init.linear(new Generator(0), 3, 2);
    const published = [
      -0.004322528839111328, 0.3097158670425415, -0.4751853346824646, -0.4248945713043213,
      -0.222368985414505, 0.1548207402229309, -0.011439144611358643, 0.4577749967575073,
    ];
    const spacing = 2 ** -24;
    [...weight, ...(bias ?? [])].forEach((value, i) => {
      expect(Math.abs(value - (published[i] ?? 0))).toBeLessThanOrEqual(spacing);
    });
  });
});

describe('constants', () => {
  test('take nothing from a stream', () => {
    expect([...init.zeros([2, 2])]).toEqual([0, 0, 0, 0]);
    expect([...init.ones([3])]).toEqual([1, 1, 1]);
    expect([...init.constant([], 2.5)]).toEqual([2.5]);
  });
});

describe('fans and gains', () => {
  test('a kernel window counts on both sides', () => {
    expect(init.calculateFans([8, 4, 3, 5])).toEqual({ fanIn: 4 * 15, fanOut: 8 * 15 });
  });

  test('gains are those of torch.nn.init.calculate_gain', () => {
    expect(nonlinearities.map((name) => init.calculateGain(name))).toEqual([
      1,
      1,
      5 / 3,
      Math.sqrt(2),
      Math.sqrt(2 / (1 + 0.01 ** 2)),
      0.75,
    ]);
  });

  test('weights without elements take nothing from the stream', () => {
    const generator = new Generator(1);
    expect(init.kaimingUniform(generator, [3, 0])).toHaveLength(0);
    expect(init.xavierNormal(generator, [0, 0])).toHaveLength(0);
    expect(generator.rand(1)).toEqual(new Generator(1).rand(1));
  });

  test('kaimingUniform refuses a vector, which has no fans', () => {
    expect(() => init.kaimingUniform(new Generator(), [3])).toThrow(ShapeError);
  });

  test('a negative or fractional dim is refused', () => {
    expect(() => init.zeros([-1])).toThrow(ShapeError);
    expect(() => init.normal(new Generator(), [1.5])).toThrow(ShapeError);
  });

  test('a normal distribution that lies outside its interval is refused', () => {
    const options = { mean: 5, std: 1, low: -2, high: 2 };
    expect(() => init.truncNormal(new Generator(), [4], options)).toThrow(ConfigError);
    expect(() => init.truncNormal(new Generator(), [4], options)).toThrow(
      '0.1 % of the distribution',
    );
  });

  test('a padding index past the table is refused', () => {
    expect(() => init.embedding(new Generator(), 3, 2, 3)).toThrow(ConfigError);
  });
});
