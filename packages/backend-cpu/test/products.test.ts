import type { Instruction } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { binary, constant, download, f32, matmul, programOf, upload } from './support.ts';

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

describe('a product of 16 bits', () => {
  it.each(['f16', 'bf16'] as const)('is rounded to %s as kernels round', async (dtype) => {
    // The bits cover everything that decides how an f32 value is rounded: the sign, the exponent and the last bits that
    // are kept.
    const tails = [0, 0x7fff, 0x8000, 0x8001];
    const heads = Array.from({ length: 2 ** 16 }, (_, head) => head);
    const bits = Uint32Array.from(
      heads.flatMap((head) => tails.map((tail) => head * 2 ** 16 + tail)),
    );
    const values = new Float32Array(bits.buffer);
    const shape = [values.length, 1];
    const backend = await cpu();
    const narrowed = async (instructions: readonly Instruction[]): Promise<Uint16Array> => {
      const last = instructions.length + 1;
      const program = programOf({
        inputs: [f32(...shape), f32(1, 1)],
        instructions: [
          ...instructions,
          { op: 'cast', params: { dtype }, inputs: [last], shape, dtype },
        ],
        outputs: [last + 1],
      });
      const executable = await backend.compile(program);
      const output = backend.alloc(values.length * 2);
      await executable.run([upload(backend, [...values]), upload(backend, [1])], [output]);
      const bytes = await backend.read(output);
      return new Uint16Array(bytes.buffer, bytes.byteOffset, values.length);
    };
    const product = await narrowed([matmul(0, 1, f32(...shape))]);
    const kernel = await narrowed([constant(1, f32(...shape)), binary('mul', 0, 2, f32(...shape))]);
    // NaN has many bit patterns. The sum of a product may begin with +0, so zeros may differ in sign.
    const infinity = dtype === 'f16' ? 0x7c00 : 0x7f80;
    const oneNaN = (half = 0): number => ((half & 0x7fff) > infinity ? 0x7fff : half);
    const different = values.filter(
      (value, at) => value !== 0 && oneNaN(product[at]) !== oneNaN(kernel[at]),
    );
    expect(different).toHaveLength(0);
  });
});
