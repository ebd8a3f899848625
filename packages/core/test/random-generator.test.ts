import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ConfigError } from '../src/spec/errors.ts';
import { fusedMultiplyAdd } from '../src/random/fused-multiply-add.ts';
import { Generator } from '../src/random/generator.ts';
import { golden, sha256 } from './golden/random.ts';

type Values = Float32Array | Float64Array | Int32Array | Uint32Array | BigInt64Array;

/** Calls randintLong. The bounds are given as words, because they are too large for a number. */
const longRanges = (g: Generator, words: readonly string[]): BigInt64Array => {
  const [low = '', high = '', count = ''] = words;
  return g.randint(BigInt(low), BigInt(high), Number(count));
};

const calls: Record<string, (generator: Generator, ...args: [number, number, number]) => Values> = {
  randperm: (g, n) => g.randperm(n),
  randint: (g, low, high, count) => g.randint(low, high, count),
  rand: (g, count) => g.rand(count),
  rand64: (g, count) => g.rand64(count),
  uniform: (g, count, low, high) => g.uniform(count, low, high),
  randn: (g, count) => g.randn(count),
  normal: (g, count, mean, std) => g.normal(count, mean, std),
  bernoulli: (g, count, probability) => Int32Array.from(g.bernoulli(count, probability)),
};

function expectValues(values: Values, result: string): void {
  if (result.startsWith('sha256')) {
    expect(sha256(values)).toBe(result);
    return;
  }
  const written = result === '' ? [] : result.split(' ');
  if (values instanceof BigInt64Array) {
    expect([...values]).toEqual(written.map(BigInt));
    return;
  }
  const words = written.map(Number);
  expect([...values]).toEqual(values instanceof Float32Array ? words.map(Math.fround) : words);
}

describe('the stream is PyTorch’s', () => {
  const programs = golden.streams.map(({ seed, calls: rows }) => ({
    seed,
    rows,
    name: rows.map((row) => row.call).join(', '),
  }));

  test.each(programs)('seed $seed: $name', ({ seed, rows }) => {
    const generator = new Generator(BigInt(seed));
    let saved = '';
    for (const { call, result } of rows) {
      const [name = '', ...words] = call.split(' ');
      if (name === 'save') {
        saved = JSON.stringify(generator.getState());
      } else if (name === 'restore') {
        generator.setState(JSON.parse(saved));
      } else {
        const [a = 0, b = 0, c = 0] = words.map(Number);
        const method = calls[name];
        if (name !== 'randintLong' && method === undefined) throw new Error(`no call ${name}`);
        expectValues(method?.(generator, a, b, c) ?? longRanges(generator, words), result);
      }
    }
  });
});

describe('the published vectors', () => {
  test('first draws of MT19937', () => {
    const five = (seed: number): number[] => {
      const generator = new Generator(seed);
      return Array.from({ length: 5 }, () => generator.random());
    };
    expect(five(0)).toEqual([2357136044, 2546248239, 3071714933, 3626093760, 2588848963]);
    expect(five(42)).toEqual([1608637542, 3421126067, 4083286876, 787846414, 3143890026]);
  });

  test('the 10000th draw of seed 5489 is 4123659995, as the C++ standard requires', () => {
    const generator = new Generator(5489);
    for (let i = 1; i < 10_000; i++) generator.random();
    expect(generator.random()).toBe(4123659995);
  });

  test('random64 is two draws, the high half first', () => {
    expect(new Generator(0).random64()).toBe((2357136044n << 32n) | 2546248239n);
  });

  test('rand(8) of seed 0', () => {
    expect([...new Generator(0).rand(8)]).toEqual([
      0.49625658988952637, 0.7682217955589294, 0.08847743272781372, 0.13203048706054688,
      0.30742281675338745, 0.6340786814689636, 0.4900934100151062, 0.8964447379112244,
    ]);
  });

  test('randn(64) of seed 42, where index 4 tells fused from unfused multiplications', () => {
    const generator = new Generator(42);
    expect([...generator.randn(64).subarray(0, 5)]).toEqual([
      1.9269152879714966, 1.4872840642929077, 0.9007171988487244, -2.1055209636688232,
      0.6784184575080872,
    ]);
    expect([...generator.randn(64).subarray(0, 4)]).toEqual([
      1.4451338052749634, 0.8564125299453735, 2.218075752258301, 0.5231655240058899,
    ]);
  });

  test('randint(0, 17, 10) of seed 0', () => {
    expect([...new Generator(0).randint(0, 17, 10)]).toEqual([7, 3, 12, 16, 2, 0, 16, 10, 6, 5]);
  });

  test.each([
    [0, [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]],
    [1, [5, 6, 1, 2, 0, 8, 9, 3, 7, 4]],
    [2 ** 32 + 1, [5, 6, 1, 2, 0, 8, 9, 3, 7, 4]],
    [42, [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]],
    [2 ** 53 - 1, [1, 4, 6, 2, 0, 5, 8, 7, 9, 3]],
  ])('randperm(10) of seed %d', (seed, order) => {
    expect([...new Generator(seed).randperm(10)]).toEqual(order);
  });
});

describe('a generator', () => {
  test('has PyTorch’s default seed', () => {
    expect(new Generator().initialSeed()).toBe(67280421310721n);
    expect(new Generator().rand(4)).toEqual(new Generator(67280421310721n).rand(4));
  });

  test('wraps negative seeds to 64 bits', () => {
    expect(new Generator(-1).initialSeed()).toBe(2n ** 64n - 1n);
  });

  test('forgets the kept half of a normal pair when it is seeded', () => {
    const generator = new Generator(3);
    const first = generator.randn(1);
    expect(generator.manualSeed(3).randn(1)).toEqual(first);
  });

  test('continues from its state after JSON, wherever it is', () => {
    const arbitrary = fc.array(fc.nat({ max: 700 }), { maxLength: 4 });
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), arbitrary, (seed, counts) => {
        const generator = new Generator(seed);
        for (const count of counts) generator.randn(count);
        const copy = new Generator().setState(JSON.parse(JSON.stringify(generator.getState())));
        expect(copy.initialSeed()).toBe(seed);
        expect(copy.randn(21)).toEqual(generator.randn(21));
        expect(copy.randn(3)).toEqual(generator.randn(3));
      }),
      { numRuns: 30 },
    );
  });

  test.each([
    ['null', null],
    ['another version', { ...new Generator().getState(), version: 2 }],
    ['too few words', { ...new Generator().getState(), words: [1, 2, 3] }],
    ['a word of 33 bits', { ...new Generator().getState(), words: Array(624).fill(2 ** 32) }],
    ['a position past the block', { ...new Generator().getState(), position: 625 }],
    ['a seed of 65 bits', { ...new Generator().getState(), seed: (2n ** 64n).toString() }],
    ['a field too many', { ...new Generator().getState(), extra: 1 }],
  ])('refuses %s as a state and keeps its own', (_name, state) => {
    const generator = new Generator(1);
    expect(() => generator.setState(state)).toThrow(ConfigError);
    expect(generator.rand(3)).toEqual(new Generator(1).rand(3));
  });

  test.each([
    ['a fractional seed', () => new Generator(0.5)],
    ['a seed that a number cannot hold', () => new Generator(2 ** 60)],
    ['a seed of 65 bits', () => new Generator(2n ** 64n)],
    ['a negative count', () => new Generator().rand(-1)],
    ['a fractional count', () => new Generator().randperm(1.5)],
    ['an empty range', () => new Generator().randint(3, 3, 1)],
    ['a range past int32', () => new Generator().randint(0, 2 ** 31 + 1, 1)],
    ['a range past int64', () => new Generator().randint(0n, 2n ** 63n, 1)],
    ['an empty range of bigints', () => new Generator().randint(3n, 3n, 1)],
    ['a reversed interval', () => new Generator().uniform(1, 2, 1)],
    ['an infinite interval', () => new Generator().uniform(1, -3e38, 3e38)],
    ['a negative deviation', () => new Generator().normal(1, 0, -1)],
    ['a probability above 1', () => new Generator().bernoulli(1, 1.5)],
    ['no probability', () => new Generator().bernoulli(1, Number.NaN)],
  ])('refuses %s', (_name, call) => {
    expect(call).toThrow(ConfigError);
  });

  test('makes permutations', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat({ max: 300 }), (seed, length) => {
        const order = new Generator(seed).randperm(length).sort();
        expect([...order]).toEqual(Array.from({ length }, (_, i) => i));
      }),
      { numRuns: 50 },
    );
  });
});

describe('fusedMultiplyAdd', () => {
  test('rounds once where float64 would round to a float32 midpoint first', () => {
    // 1 + 2^-24 is halfway between 1 and 1 + 2^-23. The term 2^-60 decides how to round, but float64 loses it.
    const half = 1 + 2 ** -23;
    const tiny = 2 ** -60;
    expect(Math.fround(2 ** -24 * 1 + 1)).toBe(1);
    expect(fusedMultiplyAdd(2 ** -12 + 2 ** -30, 2 ** -12 + 2 ** -30, 1)).toBe(half);
    expect(fusedMultiplyAdd(2 ** -12, 2 ** -12, 1)).toBe(1);
    expect(fusedMultiplyAdd(tiny, 1, 1)).toBe(1);
  });

  test('is the float32 nearest to the exact result', () => {
    const float = fc.float({ noNaN: true, noDefaultInfinity: true, min: -8, max: 8 });
    fc.assert(
      fc.property(float, float, float, (a, b, c) => {
        const big = (value: number): bigint => BigInt(value * 2 ** 170);
        const exact = big(a) * big(b) + big(c) * 2n ** 170n;
        const result = fusedMultiplyAdd(a, b, c);
        const error = (value: number): bigint => {
          const difference = BigInt(value * 2 ** 170) * 2n ** 170n - exact;
          return difference < 0n ? -difference : difference;
        };
        const bits = new Int32Array(new Float32Array([result]).buffer);
        for (const step of [-1, 1]) {
          const neighbour = new Float32Array(Int32Array.of((bits[0] ?? 0) + step).buffer)[0] ?? 0;
          if (!Number.isFinite(neighbour)) continue;
          expect(error(neighbour) >= error(result)).toBe(true);
        }
      }),
      { numRuns: 200 },
    );
  });
});

test('golden values are of the version that the generator names', () => {
  expect(golden.torch).toMatch(/^2\.15/);
});
