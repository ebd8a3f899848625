import { elementCount } from '@shardwise/core/base';
import type { DType, Shape } from '@shardwise/core/spec';
import { hostValue, i32 } from '../host-value.ts';
import { SHAPES, label } from '../op-case.ts';
import type { OpCase, OpCases } from '../op-case.ts';

export const leafCases: OpCases<'constant' | 'iota' | 'random'> = {
  constant: () => [
    ...SHAPES.map((shape) => constant(shape, 'f32', -1.5)),
    ...SHAPES.map((shape) => constant(shape, 'i32', -7)),
    constant([2, 3], 'bool', 0),
    constant([3], 'bool', 1),
    constant([2], 'f32', Infinity),
    constant([2], 'f32', -Infinity),
    constant([2], 'f32', NaN),
    constant([3], 'f32', 0.1),
    constant([1], 'i32', -(2 ** 31)),
  ],
  iota: () => [
    iota([4], 0, [0, 1, 2, 3]),
    iota([1], 0, [0]),
    iota([0], 0, []),
    iota([2, 3], 0, [0, 0, 0, 1, 1, 1]),
    iota([2, 3], 1, [0, 1, 2, 0, 1, 2]),
    iota([2, 2, 2], 1, [0, 0, 1, 1, 0, 0, 1, 1]),
    iota([2, 0, 3], 2, []),
    iota(
      [517],
      0,
      Array.from({ length: 517 }, (_, i) => i),
    ),
  ],
  random: () => [
    ...SHAPES.map((shape) => random(shape, 1, 2)),
    random([5], 0, 0),
    random([5], -1, -1),
    random([5], 2 ** 31 - 1, -(2 ** 31)),
    random([3, 4, 7], 0x1234_5678, -0x1234_5678),
    {
      title: 'has these bits for the key [1, 2]',
      operation: { op: 'random', params: { shape: [4] } },
      inputs: [i32([2], [1, 2])],
      expected: i32([4], [-213_529_861, 802_208_579, 1_052_361_751, 1_869_915_638]),
    },
  ],
};

function constant(shape: Shape, dtype: DType, value: number): OpCase {
  return {
    title: `${dtype} ${label(shape)} of ${value}`,
    operation: { op: 'constant', params: { value, shape, dtype } },
    inputs: [],
    expected: hostValue(shape, dtype, value),
  };
}

function iota(shape: Shape, dim: number, elements: readonly number[]): OpCase {
  return {
    title: `${label(shape)} along dim ${dim}`,
    operation: { op: 'iota', params: { shape, dim } },
    inputs: [],
    expected: i32(shape, elements),
  };
}

function random(shape: Shape, key0: number, key1: number): OpCase {
  const bits = Array.from({ length: elementCount(shape) }, (_, i) => hash(key0, key1, i));
  return {
    title: `${label(shape)} with the key [${key0}, ${key1}]`,
    operation: { op: 'random', params: { shape } },
    inputs: [i32([2], [key0, key1])],
    expected: i32(shape, bits),
  };
}

/** The definition of the hash in exact integers, taken modulo 2^32 after every operation. */
function hash(key0: number, key1: number, index: number): number {
  const wrap = (x: bigint): bigint => BigInt.asUintN(32, x);
  let x = wrap(BigInt(index) * 0x9e3779b9n + BigInt(key0));
  x ^= x >> 16n;
  x = wrap(x * 0x85ebca6bn);
  x ^= x >> 13n;
  x = wrap(x * 0xc2b2ae35n);
  x ^= x >> 16n;
  x = wrap(x + BigInt(key1));
  x ^= x >> 16n;
  x = wrap(x * 0x7feb352dn);
  x ^= x >> 15n;
  x = wrap(x * 0x846ca68bn);
  x ^= x >> 16n;
  return Number(BigInt.asIntN(32, x));
}
