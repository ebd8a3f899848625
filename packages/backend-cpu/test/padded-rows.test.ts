import type { Backend } from '@shardwise/core/spec';
import { beforeAll, describe, expect, test } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { wasm } from '../src/wasm.ts';
import { download, f32, programOf, upload } from './support.ts';

/*
 * Generation attends to keys that lie in blocks, and to the same keys as the training of the same text does. Both give
 * the same bits, because neither masked keys behind the others, nor other rows, change the order in which a row is
 * summed.
 */

/** Numbers that depend on their places. */
function numbers(count: number, seed: number): number[] {
  return Array.from({ length: count }, (_, at) => Math.sin(at * 12.9898 + seed * 78.233) * 3);
}

async function softmaxOf(backend: Backend, row: readonly number[]): Promise<number[]> {
  const type = f32(1, row.length);
  const program = programOf({
    inputs: [type],
    instructions: [{ op: 'softmax', params: {}, inputs: [0], ...type }],
    outputs: [1],
  });
  const executable = await backend.compile(program);
  const result = backend.alloc(4 * row.length);
  await executable.run([upload(backend, row)], [result]);
  executable.dispose();
  return download(backend, result);
}

async function product(
  backend: Backend,
  rows: readonly (readonly number[])[],
  matrix: readonly number[],
  columns: number,
  transposeB = false,
): Promise<number[][]> {
  const depth = rows[0]?.length ?? 0;
  const type = f32(rows.length, columns);
  const program = programOf({
    inputs: [f32(rows.length, depth), transposeB ? f32(columns, depth) : f32(depth, columns)],
    instructions: [
      { op: 'matmul', params: { transposeA: false, transposeB }, inputs: [0, 1], ...type },
    ],
    outputs: [2],
  });
  const executable = await backend.compile(program);
  const result = backend.alloc(4 * rows.length * columns);
  await executable.run([upload(backend, rows.flat()), upload(backend, matrix)], [result]);
  executable.dispose();
  const all = await download(backend, result);
  return rows.map((_, row) => all.slice(row * columns, (row + 1) * columns));
}

describe.each([
  ['machine code', cpu],
  ['WebAssembly', () => wasm()],
] as const)('With %s', (_, create) => {
  let backend: Backend;
  beforeAll(async () => {
    backend = await create();
  });

  test('the softmax of a row does not depend on minus infinities behind it, bit for bit', async () => {
    for (const length of [1, 3, 5, 16, 17, 31, 33, 48, 63, 64, 65, 79, 100, 127, 150, 200]) {
      const row = numbers(length, length);
      const alone = await softmaxOf(backend, row);
      for (const added of [1, 2, 7, 13, 16, 40, 64, 129]) {
        const padded = [...row, ...Array.from({ length: added }, () => -Infinity)];
        const found = await softmaxOf(backend, padded);
        expect(found.slice(0, length), `${length} + ${added}`).toEqual(alone);
        expect(found.slice(length)).toEqual(Array.from({ length: added }, () => 0));
      }
    }
  });

  test('a row of a product does not depend on the other rows, bit for bit', async () => {
    const [depth, columns] = [300, 350];
    const matrix = numbers(depth * columns, 5);
    const rows = Array.from({ length: 70 }, (_, row) => numbers(depth, row + 9));
    const all = await product(backend, rows, matrix, columns);
    for (const count of [1, 2, 3, 13, 14, 15, 31, 32, 33]) {
      const some = await product(backend, rows.slice(0, count), matrix, columns);
      expect(some, `${count} rows`).toEqual(all.slice(0, count));
    }
  });
});

test('With batchInvariant, a row has the same bits beside any others, also in products with few rows.', async () => {
  const backend = await cpu({ batchInvariant: true });
  const [depth, columns] = [256, 2048];
  const matrix = numbers(depth * columns, 5);
  const rows = Array.from({ length: 40 }, (_, row) => numbers(depth, row + 9));
  const all = await product(backend, rows, matrix, columns, true);
  for (const count of [1, 2, 5, 16, 31]) {
    expect(await product(backend, rows.slice(0, count), matrix, columns, true), `${count}`).toEqual(
      all.slice(0, count),
    );
  }
});

test('batchInvariant is refused for products of ONNX Runtime.', async () => {
  await expect(cpu({ batchInvariant: true, products: 'onnxruntime' })).rejects.toThrow(
    'sums in an order that depends on the number of rows',
  );
});
