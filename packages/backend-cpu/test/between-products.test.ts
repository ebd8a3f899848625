import type { Instruction } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { binary, download, f32, matmul, programOf, upload } from './support.ts';
import { erf } from './wasm/erf.ts';

/** The size is large enough for passes over memory to count. */
const T = 72;
const square = f32(T, T);

const sum = (values: readonly number[]): number => values.reduce((total, x) => total + x, 0);
const numbers = (seed: number): number[] =>
  Array.from({ length: T * T }, (_, i) => Math.fround(Math.sin(seed + i * 1.7)));

function product(a: readonly number[], b: readonly number[]): number[] {
  return a.map((_, at) => {
    const [row, column] = [at - (at % T), at % T];
    return sum(
      Array.from({ length: T }, (__, k) => (a[row + k] ?? NaN) * (b[k * T + column] ?? NaN)),
    );
  });
}

async function run(
  instructions: readonly Instruction[],
  inputs: readonly (readonly number[])[],
): Promise<number[]> {
  const backend = await cpu();
  const executable = await backend.compile(
    programOf({
      inputs: inputs.map(() => square),
      instructions,
      outputs: [inputs.length + instructions.length - 1],
    }),
  );
  const output = backend.alloc(T * T * 4);
  await executable.run(
    inputs.map((data) => upload(backend, data)),
    [output],
  );
  return download(backend, output);
}

function expectClose(actual: readonly number[], expected: readonly number[], bound: number): void {
  const scale = Math.max(1, ...expected.map(Math.abs));
  expect(actual).toHaveLength(expected.length);
  actual.forEach((value, i) => {
    expect(Math.abs(value - (expected[i] ?? NaN))).toBeLessThan(bound * scale);
  });
}

describe('between matrix products', () => {
  const mask = Array.from({ length: T * T }, (_, at) =>
    at % T <= Math.floor(at / T) ? 0 : -Infinity,
  );

  /** softmax(a b + mask) c. */
  const attention: readonly Instruction[] = [
    matmul(0, 1, square),
    binary('add', 4, 2, square),
    { op: 'softmax', params: {}, inputs: [5], ...square },
    matmul(6, 3, square),
  ];

  it('a masked softmax is as in f64', async () => {
    const [a, b, c] = [numbers(1), numbers(2), numbers(3)];
    const scores = product(a, b).map((score, at) => score + (mask[at] ?? NaN));
    const weights = scores.map((score, at) => {
      const row = scores.slice(at - (at % T), at - (at % T) + T);
      const largest = Math.max(...row);
      return Math.exp(score - largest) / sum(row.map((x) => Math.exp(x - largest)));
    });
    expectClose(await run(attention, [a, b, mask, c]), product(weights, c), 1e-5);
  });

  it('a masked weight is exactly 0, and a row without visible elements is NaN', async () => {
    const hidden = mask.map((value, at) => (at < T ? -Infinity : value));
    const identity = mask.map((_, at) => (at % T === Math.floor(at / T) ? 1 : 0));
    const weights = await run(attention, [numbers(1), numbers(2), hidden, identity]);
    expect(weights.slice(0, T).every(Number.isNaN)).toBe(true);
    expect(weights.every((weight, at) => at < T || mask[at] === 0 || weight === 0)).toBe(true);
  });

  it('the exact gelu is as in f64', async () => {
    const a = numbers(1);
    const gelu: Instruction = {
      op: 'gelu',
      params: { approximate: 'none' },
      inputs: [2],
      ...square,
    };
    // The product with the identity matrix returns the elements unchanged.
    const identity = a.map((_, at) => (at % T === Math.floor(at / T) ? 1 : 0));
    const actual = await run([matmul(0, 1, square), gelu, matmul(3, 1, square)], [a, identity]);
    expectClose(
      actual,
      a.map((x) => 0.5 * x * (1 + erf(x / Math.SQRT2))),
      1e-6,
    );
  });
});
