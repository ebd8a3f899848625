import { autocast, type Backend, fromData, setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';
import { cpu } from '../../src/cpu.ts';
import { type InstructionSet, instructionSets } from '../../src/emit/x64/instruction-sets.ts';
import { codes, fromBf16, machine, multiply, toBf16 } from './support.ts';

const { fround } = Math;
/** The least positive normal number. Products of 16-bit values flush anything smaller to 0. */
const leastNormal = 2 ** -126;
const flushed = (x: number): number => (Math.abs(x) < leastNormal ? 0 : x);
const add = (sum: number, term: number): number => flushed(fround(sum + term));

type Values = ArrayLike<number>;

/** How AVX512-BF16 adds up the terms of an element, in plain JavaScript. */
function pairByPair(a: Values, b: Values): number {
  let sum = 0;
  for (let k = 0; k < a.length; k += 2) {
    sum = add(sum, flushed(a[k + 1] ?? 0) * flushed(b[k + 1] ?? 0));
    sum = add(sum, flushed(a[k] ?? 0) * flushed(b[k] ?? 0));
  }
  return sum;
}

const sums: Readonly<Record<InstructionSet, (a: Values, b: Values) => number>> = {
  'AVX512-BF16': pairByPair,
  'AVX-512': pairByPair,
  AVX2: pairByPair,
  'AMX-BF16': (a, b) => {
    let sum = 0;
    for (let start = 0; start < a.length; start += 32) {
      const halves = [0, 0];
      for (let k = start; k < Math.min(start + 32, a.length); k++) {
        halves[k % 2] = add(halves[k % 2] ?? 0, flushed(a[k] ?? 0) * flushed(b[k] ?? 0));
      }
      sum = add(sum, add(halves[0] ?? 0, halves[1] ?? 0));
    }
    return sum;
  },
};

describe.each(instructionSets)('a product of bf16 by %s', (set) => {
  const code = codes[set];
  const sumOf = sums[set];

  it.skipIf(code === undefined).each([
    ['in registers', 101],
    ['in memory between blocks of terms', 700],
  ])('has the bits of its terms summed in the documented order, %s', (_, depth) => {
    if (code === undefined) throw new Error('no code');
    const [rows, columns] = [20, 70];
    const a = toBf16(Float32Array.from({ length: rows * depth }, (_, at) => Math.sin(at * 1.7)));
    const b = toBf16(Float32Array.from({ length: depth * columns }, (_, at) => Math.cos(at * 2.3)));
    const of = { kind: 'bf16 to f32', packing: 'bf16', rows, columns, depth } as const;
    const result = multiply(code, of, a, b);
    const [left, right] = [fromBf16(a), fromBf16(b)];
    const expected = Float32Array.from({ length: rows * columns }, (_, index) => {
      const [row, column] = [Math.floor(index / columns), index % columns];
      return sumOf(
        left.subarray(row * depth, (row + 1) * depth),
        Float32Array.from({ length: depth }, (__, k) => right[k * columns + column] ?? NaN),
      );
    });
    expect(result).toEqual(expected);
  });

  it.skipIf(code === undefined)('takes denormal values for 0, and has none', () => {
    if (code === undefined) throw new Error('no code');
    const of = { kind: 'bf16 to f32', packing: 'bf16', rows: 1, columns: 1, depth: 1 } as const;
    const one = (x: number, y: number): number | undefined =>
      multiply(code, of, toBf16(Float32Array.of(x)), toBf16(Float32Array.of(y)))[0];
    expect(one(2 ** -127, 2 ** 20)).toBe(0);
    expect(one(2 ** -100, 2 ** -30)).toBe(0);
    expect(one(2 ** -100, 2 ** -26)).toBe(2 ** -126);
  });
});

/** Returns numbers of about 1. Every seventh is scaled by a power of two from 2^-65 to 2^64. */
const numbers = (count: number, seed: number): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: count }, (_, index) => {
    const size = index % 7 === 0 ? 2 ** (((index * 37) % 130) - 65) : 1;
    return Math.sin(seed + index * 1.7) * size;
  });

describe('a product of bf16', () => {
  it.skipIf(machine.kind === 'none')(
    'has the bits that the interpreter gives by request',
    async () => {
      const made = async (device: Backend, seed: number): Promise<unknown> => {
        setRank({ device });
        const x = fromData(numbers(2 * 21 * 33, seed), [2, 21, 33], 'f32');
        const w = fromData(numbers(33 * 40, seed + 1), [33, 40], 'f32');
        const product = autocast({ dtype: 'bf16' }, () => x.matmul(w));
        return product.to('f32').data();
      };
      const device = await cpu({ byteLength: 2 ** 26, instructions: 'AVX512-BF16' });
      for (const seed of [1, 2, 3]) {
        const exact = await made(interpreter({ bf16Sums: 'AVX512-BF16' }), seed);
        expect(await made(device, seed)).toEqual(exact);
      }
    },
  );
});
