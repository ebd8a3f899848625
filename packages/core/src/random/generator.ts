import { requireIntegers } from '../base/check-options.ts';
import { ConfigError, describeValue } from '../spec/errors.ts';
import { boxMuller16 } from './box-muller.ts';
import { fusedMultiplyAdd } from './fused-multiply-add.ts';
import { type GeneratorState, parseGeneratorState } from './generator-state.ts';
import { MersenneTwister } from './mersenne-twister.ts';

const { fround } = Math;

const DEFAULT_SEED = 67280421310721n;
/** From this length on, PyTorch draws 64 bits per item of a permutation, because 32 bits would give a skew of 5 %. */
const LONG_PERMUTATION = Math.floor(0xffffffff / 20);
const WIDE_RANGE = 2 ** 28;
const INT32_MIN = -(2 ** 31);
const INT32_END = 2 ** 31;
const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/**
 * A stream of random numbers: PyTorch's CPU generator (2.15, x86-64), bit for bit. Every method takes from the
 * stream what the PyTorch function of the same name takes, so sequences of calls agree too.
 */
export class Generator {
  #engine: MersenneTwister;
  #seed: bigint;
  #nextNormal: number | undefined;

  /** The default seed is that of a PyTorch generator that was not seeded. */
  constructor(seed: number | bigint = DEFAULT_SEED) {
    this.#seed = toSeed(seed);
    this.#engine = engineOf(this.#seed);
  }

  /**
   * Starts the stream again. A seed is an integer in [-2^63, 2^64). Negative seeds wrap. Only 32 bits have an
   * effect.
   */
  manualSeed(seed: number | bigint): this {
    this.#seed = toSeed(seed);
    this.#engine = engineOf(this.#seed);
    this.#nextNormal = undefined;
    return this;
  }

  initialSeed(): bigint {
    return this.#seed;
  }

  getState(): GeneratorState {
    const { words, position } = this.#engine.snapshot();
    return {
      version: 1,
      seed: this.#seed.toString(),
      words: Array.from(words),
      position,
      nextNormal: this.#nextNormal ?? null,
    };
  }

  /** Throws ConfigError if `state` is not a result of `getState`. */
  setState(state: unknown): this {
    const { seed, words, position, nextNormal } = parseGeneratorState(state);
    this.#seed = toSeed(BigInt(seed));
    this.#engine.restore(words, position);
    this.#nextNormal = nextNormal ?? undefined;
    return this;
  }

  /** 32 random bits. */
  random(): number {
    return this.#engine.next();
  }

  /** 64 random bits, which take two draws. */
  random64(): bigint {
    const high = this.#engine.next();
    return (BigInt(high) << 32n) | BigInt(this.#engine.next());
  }

  /** The integers 0 to length - 1 in random order. */
  randperm(length: number): Uint32Array<ArrayBuffer> {
    requireIntegers('randperm', { length }, 0, 2 ** 32 - 1);
    const order = new Uint32Array(length);
    if (length >= LONG_PERMUTATION) {
      for (let i = 0; i < length; i++) {
        const j = this.#random64Below(i + 1);
        order[i] = order[j] ?? 0;
        order[j] = i;
      }
      return order;
    }
    for (let i = 0; i < length; i++) order[i] = i;
    for (let i = 0; i < length - 1; i++) {
      const j = i + (this.#engine.next() % (length - i));
      const moved = order[i] ?? 0;
      order[i] = order[j] ?? 0;
      order[j] = moved;
    }
    return order;
  }

  /** Integers in [low, high): numbers in the range of int32, bigints in that of int64. */
  randint(low: number, high: number, count: number): Int32Array<ArrayBuffer>;
  randint(low: bigint, high: bigint, count: number): BigInt64Array<ArrayBuffer>;
  randint(
    low: number | bigint,
    high: number | bigint,
    count: number,
  ): Int32Array<ArrayBuffer> | BigInt64Array<ArrayBuffer> {
    requireIntegers('randint', { count }, 0);
    if (typeof low === 'number' && typeof high === 'number') return this.#int32s(low, high, count);
    return this.#int64s(BigInt(low), BigInt(high), count);
  }

  #int32s(low: number, high: number, count: number): Int32Array<ArrayBuffer> {
    if (!Number.isInteger(low) || !Number.isInteger(high) || low < INT32_MIN || high > INT32_END) {
      throw rangeError('randint', low, high, 'Use integers in [-2^31, 2^31], or bigints');
    }
    if (low >= high) throw rangeError('randint', low, high, 'Make low less than high');
    const values = new Int32Array(count);
    const range = high - low;
    const wide = range >= WIDE_RANGE;
    for (let i = 0; i < count; i++) {
      values[i] = low + (wide ? this.#random64Below(range) : this.#engine.next() % range);
    }
    return values;
  }

  #int64s(low: bigint, high: bigint, count: number): BigInt64Array<ArrayBuffer> {
    if (low < INT64_MIN || high > INT64_MAX) {
      throw rangeError('randint', low, high, 'Use bigints in [-2^63, 2^63 - 1]');
    }
    if (low >= high) throw rangeError('randint', low, high, 'Make low less than high');
    const range = high - low;
    const wide = range >= BigInt(WIDE_RANGE);
    return BigInt64Array.from({ length: count }, () => {
      const drawn = wide ? this.random64() : BigInt(this.#engine.next());
      return low + (drawn % range);
    });
  }

  /** Float32 values in [0, 1): multiples of 2^-24. */
  rand(count: number): Float32Array<ArrayBuffer> {
    requireIntegers('rand', { count }, 0);
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) values[i] = this.#uniform24();
    return values;
  }

  /** Float64 values in [0, 1): multiples of 2^-53. Each value takes two draws. */
  rand64(count: number): Float64Array<ArrayBuffer> {
    requireIntegers('rand64', { count }, 0);
    const values = new Float64Array(count);
    for (let i = 0; i < count; i++) values[i] = this.#uniform53();
    return values;
  }

  /**
   * Float32 values in [from, to): PyTorch's `uniform_`. They are scaled with one rounding, as in PyTorch's AVX2
   * code since it is compiled with fused multiplications. Older releases round twice and differ in the last
   * bit.
   */
  uniform(count: number, from = 0, to = 1): Float32Array<ArrayBuffer> {
    requireIntegers('uniform', { count }, 0);
    const start = fround(from);
    const end = fround(to);
    const width = fround(end - start);
    if (!(start <= end) || ![from, to, width].every(Number.isFinite)) {
      throw rangeError('uniform', from, to, 'Make from at most to, and both finite');
    }
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      const value = fusedMultiplyAdd(this.#uniform24(), width, start);
      values[i] = value === end ? start : value;
    }
    return values;
  }

  /** Float32 values of mean 0 and standard deviation 1. */
  randn(count: number): Float32Array<ArrayBuffer> {
    return this.normal(count, 0, 1);
  }

  /**
   * Float32 values: PyTorch's `normal_` of a contiguous tensor. Fewer than 16 values are computed in float64,
   * in pairs, and half a pair is kept for the next call. From 16 on, they are computed in blocks of 16 in
   * float32. If `count` is not a multiple of 16, the last 16 values are drawn again.
   */
  normal(count: number, mean = 0, std = 1): Float32Array<ArrayBuffer> {
    requireIntegers('normal', { count }, 0);
    if (!(std >= 0) || !Number.isFinite(mean) || !Number.isFinite(std)) {
      throw new ConfigError(
        {
          asked: 'normal values',
          found: `mean ${mean}, standard deviation ${std}`,
          todo: 'Use a finite mean and a finite standard deviation of at least 0',
        },
        { mean, std },
      );
    }
    if (count < 16) {
      return Float32Array.from({ length: count }, () => this.#normal53() * std + mean);
    }
    const values = this.rand(count);
    for (let i = 0; i + 16 <= count; i += 16) boxMuller16(values, i, mean, std);
    if (count % 16 !== 0) {
      for (let i = count - 16; i < count; i++) values[i] = this.#uniform24();
      boxMuller16(values, count - 16, mean, std);
    }
    return values;
  }

  /**
   * 1 with the given probability, otherwise 0: PyTorch's `bernoulli` of a float32 tensor of probabilities.
   * (PyTorch's `bernoulli_(p)` with a number uses Intel MKL's stream if PyTorch is built with it.)
   */
  bernoulli(count: number, probability: number): Uint8Array<ArrayBuffer> {
    requireIntegers('bernoulli', { count }, 0);
    if (!Number.isFinite(probability) || probability < 0 || probability > 1) {
      throw new ConfigError(
        {
          asked: 'Bernoulli values',
          found: `probability ${probability}`,
          todo: 'Use a probability in [0, 1]',
        },
        { probability },
      );
    }
    const bound = fround(probability);
    const values = new Uint8Array(count);
    for (let i = 0; i < count; i++) values[i] = this.#uniform24() < bound ? 1 : 0;
    return values;
  }

  #uniform24(): number {
    return (this.#engine.next() & 0xffffff) * 2 ** -24;
  }

  #uniform53(): number {
    const high = this.#engine.next() & 0x1fffff;
    return (high * 2 ** 32 + this.#engine.next()) * 2 ** -53;
  }

  #normal53(): number {
    const kept = this.#nextNormal;
    if (kept !== undefined) {
      this.#nextNormal = undefined;
      return kept;
    }
    const theta = 2 * Math.PI * this.#uniform53();
    const radius = Math.sqrt(-2 * Math.log1p(-this.#uniform53()));
    this.#nextNormal = radius * Math.sin(theta);
    return radius * Math.cos(theta);
  }

  /** random64() % bound for a bound of at most 2^32, computed in steps that are exact in float64. */
  #random64Below(bound: number): number {
    const high = this.#engine.next() % bound;
    const low = this.#engine.next();
    const upper = (high * 0x10000 + (low >>> 16)) % bound;
    return (upper * 0x10000 + (low & 0xffff)) % bound;
  }
}

function toSeed(seed: number | bigint): bigint {
  const exact = typeof seed === 'bigint' || Number.isSafeInteger(seed) ? BigInt(seed) : undefined;
  if (exact === undefined || exact < -(2n ** 63n) || exact >= 2n ** 64n) {
    throw new ConfigError(
      {
        asked: `a random generator with seed ${describeValue(seed)}`,
        found: 'no integer in [-2^63, 2^64) that is known exactly',
        todo: 'Use a safe integer or a bigint',
      },
      { seed },
    );
  }
  return BigInt.asUintN(64, exact);
}

function engineOf(seed: bigint): MersenneTwister {
  return new MersenneTwister(Number(BigInt.asUintN(32, seed)));
}

function rangeError(
  method: string,
  from: number | bigint,
  to: number | bigint,
  todo: string,
): ConfigError {
  return new ConfigError(
    { asked: `${method} values`, found: `the range [${from}, ${to})`, todo },
    { method, from, to },
  );
}
