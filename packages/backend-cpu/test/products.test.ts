import type { Instruction } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { binary, constant, download, f32, programOf, upload } from './support.ts';

const [M, K, N] = [5, 7, 6];
const result = f32(M, N);

const numbers = (count: number, seed: number): number[] =>
  Array.from({ length: count }, (_, i) => Math.fround(Math.sin(seed + i * 1.7)));

async function run(
  instructions: readonly Instruction[],
  inputs: readonly { shape: readonly number[]; data: readonly number[] }[],
): Promise<number[]> {
  const backend = await cpu();
  const types = inputs.map(({ shape }) => f32(...shape));
  const outputs = [inputs.length + instructions.length - 1];
  const program = programOf({ inputs: types, instructions, outputs });
  const executable = await backend.compile(program);
  const output = backend.alloc(M * N * 4);
  await executable.run(
    inputs.map(({ data }) => upload(backend, data)),
    [output],
  );
  return download(backend, output);
}

describe('a matmul that scales and adds by itself', () => {
  it.each([
    [false, false],
    [true, false],
    [false, true],
    [true, true],
  ])('computes 0.3 a b + bias, transposed %s and %s, as in f64', async (transposeA, transposeB) => {
    const a = numbers(M * K, 1);
    const b = numbers(K * N, 2);
    const bias = numbers(N, 3);
    const actual = await run(
      [
        constant(0.3, result),
        { op: 'matmul', params: { transposeA, transposeB }, inputs: [0, 1], ...result },
        binary('mul', 4, 3, result),
        { op: 'reshape', params: { shape: [1, N] }, inputs: [2], ...f32(1, N) },
        { op: 'expand', params: { shape: [M, N] }, inputs: [6], ...result },
        binary('add', 5, 7, result),
      ],
      [
        { shape: transposeA ? [K, M] : [M, K], data: a },
        { shape: transposeB ? [N, K] : [K, N], data: b },
        { shape: [N], data: bias },
      ],
    );
    const expected = Array.from({ length: M * N }, (_, at) => {
      const [row, column] = [Math.floor(at / N), at % N];
      const products = Array.from({ length: K }, (_, k) => {
        const left = a[transposeA ? k * M + row : row * K + k] ?? NaN;
        const right = b[transposeB ? column * K + k : k * N + column] ?? NaN;
        return left * right;
      });
      return 0.3 * products.reduce((sum, x) => sum + x, 0) + (bias[column] ?? NaN);
    });
    actual.forEach((value, i) => {
      expect(Math.abs(value - (expected[i] ?? NaN))).toBeLessThan(1e-6);
    });
  });
});
