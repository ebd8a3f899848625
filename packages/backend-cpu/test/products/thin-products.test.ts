import { describe, expect, it } from 'vitest';
import { createLoops } from '../../src/engines/loops/loops.ts';
import { createProducts } from '../../src/engines/create-products.ts';
import { Arena } from '../../src/memory/arena.ts';
import { createMemory } from '../../src/memory/create-memory.ts';
import { Scratch } from '../../src/memory/scratch.ts';
import { analyse } from '../../src/plan/analyse.ts';
import { compileSized } from '../../src/run/compile-sized.ts';
import { WorkQueue } from '../../src/run/work-queue.ts';
import { onnxFallback } from '../../src/engines/onnx/onnx-fallback.ts';
import { Sessions } from '../../src/engines/onnx/sessions.ts';
import { f32, matmul, programOf, unary } from '../support.ts';

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

/** How many sessions a program has in which the product has `rowsAt` rows, and other values vary in size. */
async function sessionsOfSized(rowsAt: (size: number) => number): Promise<number> {
  const arena = new Arena(createMemory(2 ** 26));
  let count = 0;
  const counting: typeof sessions = {
    ...sessions,
    acquire: (pattern, known) => {
      count++;
      return sessions.acquire(pattern, known);
    },
  };
  const host = {
    arena,
    scratch: new Scratch(arena),
    queue: new WorkQueue(),
    products: createProducts(arena, { products: 'own', threads: 1, instructions: 'AMX-BF16' }),
    loops: createLoops('own', 'AMX-BF16').code,
    fallback: counting,
  };
  const executable = await compileSized(
    {
      symbols: [{ max: 64, seen: 24, spacing: 1 }],
      at: ([size = 0]) => {
        const rows = rowsAt(size);
        return programOf({
          inputs: [f32(rows, 1024), f32(1024, 1024), f32(size, 8)],
          instructions: [
            {
              ...matmul(0, 1, f32(rows, 1024)),
              op: 'matmul',
              params: { transposeA: false, transposeB: true },
            },
            unary('exp', 2, f32(size, 8)),
          ],
          outputs: [3, 4],
        });
      },
    },
    host,
  );
  executable?.dispose();
  return count;
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

  it('is left to ONNX Runtime where only other sizes vary, as the length of a cache', async () => {
    const usual = kindsOf([], [1, 1024, 1024]);
    expect(await sessionsOfSized(() => 1)).toBe(usual.includes('onnx') ? 1 : 0);
    // The choice would depend on how many rows there are: 1 to 31, or more.
    expect(await sessionsOfSized((size) => size)).toBe(0);
  });

  it('is computed by machine code where its own sizes vary', () => {
    expect(kindsOf([], [4, 1024, 1024], { thin: true })).toEqual(['product']);
  });
});
