import { describe, expect, it } from 'vitest';
import { analyse } from '../../src/plan/analyse.ts';
import { onnxFallback } from '../../src/engines/onnx/onnx-fallback.ts';
import { Sessions } from '../../src/engines/onnx/sessions.ts';
import { f32, programOf } from '../support.ts';

const sessions = onnxFallback(new Sessions(1));

function kindsOf(
  batch: number[],
  [M, K, N]: readonly number[],
  { thin = false, transposeB = false } = {},
): string[] {
  const [m, k, n] = [M ?? 0, K ?? 0, N ?? 0];
  const program = programOf({
    inputs: [f32(...batch, m, k), transposeB ? f32(n, k) : f32(k, n)],
    instructions: [
      {
        op: 'matmul',
        params: { transposeA: false, transposeB },
        inputs: [0, 1],
        ...f32(...batch, m, n),
      },
    ],
    outputs: [2],
  });
  return analyse(program, { bf16: false, thin, attention: null }, sessions).partitions.map(
    ({ kind }) => kind,
  );
}

describe('a product of f32', () => {
  it('is left to ONNX Runtime where it is large, and packing would not pay', () => {
    for (const sizes of [
      [1, 1024, 1024],
      [1024, 4, 1024],
      [1024, 1024, 4],
    ]) {
      expect(kindsOf([], sizes)).toEqual(['onnx']);
    }
  });

  it('of few rows is ours where the sums read across the right operand', () => {
    for (const rows of [2, 7, 16]) {
      expect(kindsOf([], [rows, 1024, 1024])).toEqual(['product']);
    }
    expect(kindsOf([], [16, 1024, 1024], { transposeB: true })).toEqual(['onnx']);
  });

  it('is computed by machine code where all of its sizes are large, or all are small', () => {
    expect(kindsOf([], [32, 1024, 32])).toEqual(['product']);
    expect(kindsOf([], [4, 4, 4])).toEqual(['product']);
    expect(kindsOf([], [4, 256, 256])).toEqual(['product']);
  });

  it('has as many rows as its batch, where all are multiplied with the same matrix', () => {
    expect(kindsOf([8], [4, 1024, 1024])).toEqual(['product']);
  });

  it('is computed by machine code where sizes vary, because the choice may not depend on them', () => {
    expect(kindsOf([], [4, 1024, 1024], { thin: true })).toEqual(['product']);
  });
});
