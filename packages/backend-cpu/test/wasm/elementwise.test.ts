import { type ComputeOp, type ComputeParams, type DType } from '@shardwise/core/spec';
import { describe, expect, test } from 'vitest';
import { KernelFixture, sampleFloats } from './kernel-fixture.ts';

const SIZES = [0, 1, 3, 4, 5, 1000];
const round = Math.fround;

const ints = (count: number, seed: number): number[] =>
  [0, 1, -1, 7, -7, 2147483647, -2147483647, ...sampleFloats(count, seed).map((x) => x * 1000)]
    .filter(Number.isFinite)
    .map((x) => x | 0)
    .concat(Array.from({ length: count }, (_, i) => i * 31 - 500))
    .slice(0, count);
const bools = (count: number, seed: number): number[] =>
  ints(count, seed).map((x) => Number(x % 3 === 0));
const samples: Record<'f32' | 'i32' | 'bool', (count: number, seed: number) => number[]> = {
  f32: sampleFloats,
  i32: ints,
  bool: bools,
};

interface Case {
  readonly op: ComputeOp;
  readonly inputs: readonly ('f32' | 'i32' | 'bool')[];
  readonly output: DType;
  readonly expected: (a: number, b: number, c: number) => number;
  readonly params?: ComputeParams['cast'];
}

const unary = (op: ComputeOp, dtype: 'f32' | 'i32' | 'bool', expected: Case['expected']): Case => ({
  op,
  inputs: [dtype],
  output: dtype,
  expected,
});
const binary = (op: ComputeOp, dtype: 'f32' | 'i32', expected: Case['expected']): Case => ({
  op,
  inputs: [dtype, dtype],
  output: dtype,
  expected,
});
const compare = (op: ComputeOp, dtype: 'f32' | 'i32', expected: Case['expected']): Case => ({
  ...binary(op, dtype, expected),
  output: 'bool',
});
const cast = (
  from: 'f32' | 'i32' | 'bool',
  to: 'f32' | 'i32' | 'bool',
  expected: Case['expected'],
): Case => ({ op: 'cast', inputs: [from], output: to, expected, params: { dtype: to } });
const saturate = (x: number): number => Math.max(-2147483648, Math.min(2147483647, x));
const toInt = (x: number): number => (Number.isNaN(x) ? 0 : saturate(Math.trunc(x)) | 0);

const exact: readonly Case[] = [
  unary('neg', 'f32', (a) => -a),
  unary('abs', 'f32', Math.abs),
  unary('sign', 'f32', (a) => Math.sign(a) || 0),
  unary('sqrt', 'f32', (a) => round(Math.sqrt(a))),
  unary('floor', 'f32', Math.floor),
  unary('ceil', 'f32', Math.ceil),
  unary('relu', 'f32', (a) => Math.max(a, 0)),
  binary('add', 'f32', (a, b) => round(a + b)),
  binary('sub', 'f32', (a, b) => round(a - b)),
  binary('mul', 'f32', (a, b) => round(a * b)),
  binary('div', 'f32', (a, b) => round(a / b)),
  binary('maximum', 'f32', (a, b) => Math.max(a, b)),
  binary('minimum', 'f32', (a, b) => Math.min(a, b)),
  compare('equal', 'f32', (a, b) => Number(a === b)),
  compare('less', 'f32', (a, b) => Number(a < b)),
  compare('lessEqual', 'f32', (a, b) => Number(a <= b)),
  unary('neg', 'i32', (a) => -a | 0),
  unary('abs', 'i32', (a) => Math.abs(a) | 0),
  unary('sign', 'i32', (a) => Math.sign(a) | 0),
  binary('add', 'i32', (a, b) => (a + b) | 0),
  binary('sub', 'i32', (a, b) => (a - b) | 0),
  binary('mul', 'i32', Math.imul),
  binary('div', 'i32', (a, b) => toInt(a / b)),
  binary('maximum', 'i32', (a, b) => Math.max(a, b)),
  binary('minimum', 'i32', (a, b) => Math.min(a, b)),
  compare('equal', 'i32', (a, b) => Number(a === b)),
  compare('less', 'i32', (a, b) => Number(a < b)),
  compare('lessEqual', 'i32', (a, b) => Number(a <= b)),
  unary('logicalNot', 'bool', (a) => 1 - a),
  { op: 'logicalAnd', inputs: ['bool', 'bool'], output: 'bool', expected: (a, b) => a & b },
  { op: 'logicalOr', inputs: ['bool', 'bool'], output: 'bool', expected: (a, b) => a | b },
  {
    op: 'where',
    inputs: ['bool', 'f32', 'f32'],
    output: 'f32',
    expected: (c, a, b) => (c ? a : b),
  },
  {
    op: 'where',
    inputs: ['bool', 'i32', 'i32'],
    output: 'i32',
    expected: (c, a, b) => (c ? a : b),
  },
  {
    op: 'where',
    inputs: ['bool', 'bool', 'bool'],
    output: 'bool',
    expected: (c, a, b) => (c ? a : b),
  },
  cast('f32', 'i32', toInt),
  cast('f32', 'bool', (a) => Number(a !== 0)),
  cast('i32', 'f32', round),
  cast('i32', 'bool', (a) => Number(a !== 0)),
  cast('bool', 'f32', (a) => a),
  cast('bool', 'i32', (a) => a),
  cast('f32', 'f32', (a) => a),
];

/** Compares values. -0 differs from 0, and all NaN are equal. */
function expectSame(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toEqual(expected);
}

describe.each(SIZES)('on %i elements', (count) => {
  test.each(exact)('$op of $inputs equals the JavaScript operation', (item) => {
    const fixture = new KernelFixture();
    const data = item.inputs.map((dtype, i) => samples[dtype](count, i + 1));
    const inputs = data.map((values, i) => fixture.input(values, item.inputs[i]));
    fixture.outputs.push(fixture.op(item.op, inputs, item.params ?? {}, [count], item.output));
    const [actual] = fixture.run();
    const at = (i: number, k: number): number => data[k]?.[i] ?? 0;
    expectSame(
      actual ?? [],
      Array.from({ length: count }, (_, i) => item.expected(at(i, 0), at(i, 1), at(i, 2))),
    );
  });
});
