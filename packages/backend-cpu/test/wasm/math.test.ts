import type { ComputeOp, ComputeParams } from '@shardwise/core/spec';
import { describe, expect, test } from 'vitest';
import { erf } from './erf.ts';
import { KernelFixture } from './kernel-fixture.ts';

type Gelu = ComputeParams['gelu'];

const normal = (x: number): number => (1 + erf(x / Math.SQRT2)) / 2;
const density = (x: number): number => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
const slope = Math.sqrt(2 / Math.PI);
const gate = (x: number): number => (1 + Math.tanh(slope * (x + 0.044715 * x ** 3))) / 2;
const gateSlope = (x: number): number =>
  2 * slope * (1 + 3 * 0.044715 * x * x) * gate(x) * (1 - gate(x));

function evaluate(op: ComputeOp, data: readonly number[], params: Gelu | object = {}): number[] {
  const fixture = new KernelFixture();
  const x = fixture.input(data);
  const inputs = op === 'geluGrad' ? [x, fixture.input(data.map(() => 1))] : [x];
  fixture.outputs.push(fixture.op(op, inputs, params, [data.length]));
  return fixture.run()[0] ?? [];
}

function between(low: number, high: number, count = 20001): number[] {
  return Array.from({ length: count }, (_, i) =>
    Math.fround(low + ((high - low) * i) / (count - 1)),
  );
}

function largestError(
  op: ComputeOp,
  exact: (x: number) => number,
  [low, high]: readonly [number, number],
  kind: 'relative' | 'absolute',
  params?: Gelu,
): number {
  const data = between(low, high);
  const actual = evaluate(op, data, params);
  return data.reduce((largest, x, i) => {
    const expected = exact(x);
    const error = Math.abs((actual[i] ?? NaN) - expected);
    const scale = kind === 'relative' ? Math.max(Math.abs(expected), 2 ** -126) : 1;
    return Math.max(largest, error / scale);
  }, 0);
}

describe('relative error against f64', () => {
  test.each([
    ['exp', Math.exp, [-87.3, 88.7], 1e-7],
    ['log', Math.log, [0.1, 10], 1e-7],
    ['log', Math.log, [1e-30, 1e30], 1e-7],
    ['tanh', Math.tanh, [-10, 10], 5e-7],
    ['erf', erf, [-5, 5], 5e-7],
    ['sigmoid', (x: number) => 1 / (1 + Math.exp(-x)), [-80, 20], 2e-7],
  ] as const)('of %s', (op, exact, range, bound) => {
    expect(largestError(op, exact, range, 'relative')).toBeLessThan(bound);
  });
});

describe('absolute error against f64', () => {
  test.each([
    ['gelu', 'none', (x: number) => x * normal(x), 1.2e-6],
    ['gelu', 'tanh', (x: number) => x * gate(x), 1.2e-6],
    ['geluGrad', 'none', (x: number) => normal(x) + x * density(x), 3e-7],
    ['geluGrad', 'tanh', (x: number) => gate(x) + x * gateSlope(x), 3e-7],
  ] as const)('of %s, %s', (op, approximate, exact, bound) => {
    expect(largestError(op, exact, [-8, 8], 'absolute', { approximate })).toBeLessThan(bound);
  });
});

describe('limits and special values', () => {
  const inputs = [0, -0, NaN, Infinity, -Infinity, 1e30, -1e30];

  test.each([
    ['exp', [1, 1, NaN, Infinity, 0, Infinity, 0]],
    ['log', [-Infinity, -Infinity, NaN, Infinity, NaN, Math.fround(Math.log(1e30)), NaN]],
    ['tanh', [0, -0, NaN, 1, -1, 1, -1]],
    ['erf', [0, -0, NaN, 1, -1, 1, -1]],
    ['sigmoid', [0.5, 0.5, NaN, 1, 0, 1, 0]],
  ] as const)('of %s', (op, expected) => {
    expect(evaluate(op, inputs)).toEqual(expected);
  });

  test.each(['none', 'tanh'] as const)('gelu, %s, is exactly 0 and x far from 0', (approximate) => {
    const data = [-100, -7, 7, 100, Math.fround(1e30), 0, NaN];
    expect(evaluate('gelu', data, { approximate })).toEqual([-0, -0, 7, 100, data[4], 0, NaN]);
  });

  test.each(['none', 'tanh'] as const)('geluGrad, %s, is exactly 0 and 1', (approximate) => {
    expect(evaluate('geluGrad', inputs, { approximate })).toEqual([0.5, 0.5, NaN, 1, 0, 1, 0]);
  });

  test('exp reaches the denormals and the largest numbers', () => {
    const data = [-88, -100, -103, 88.7].map(Math.fround);
    const actual = evaluate('exp', data);
    data.forEach((x, i) => {
      const error = Math.abs((actual[i] ?? NaN) - Math.exp(x));
      expect(error).toBeLessThanOrEqual(Math.max(1e-7 * Math.exp(x), 2 ** -149));
    });
  });

  test('log of denormals', () => {
    expect(evaluate('log', [2 ** -140])[0]).toBeCloseTo(-140 * Math.LN2, 4);
  });

  test('tanh and erf never leave [-1, 1]', () => {
    for (const op of ['tanh', 'erf'] as const) {
      expect(Math.max(...evaluate(op, between(0, 12)).map(Math.abs))).toBe(1);
    }
  });
});
