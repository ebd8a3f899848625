import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cpu } from '../../src/cpu.ts';
import type { BlockLoop } from '../../src/engines/products/block-loops.ts';
import { splitProducts } from '../../src/engines/products/split-products.ts';
import { download, f32, matmul, programOf, upload } from '../support.ts';
import { codes } from './support.ts';
import type { MatrixProduct } from '../../src/program/work/matrix-product.ts';
import { PlannedTasks } from '../../src/engines/products/planned-tasks.ts';
import type { ProductCode } from '../../src/emit/products/product-code.ts';
import { loopNumbers, callWords } from '../../src/lanes/loop-code.ts';
import { type ProductResources, partsWithLoops } from '../../src/engines/products/run-parts.ts';

const numbers = (count: number, seed: number): number[] =>
  Array.from({ length: count }, (_, index) => Math.fround(Math.sin(seed + index * 1.7)));

async function productBy(threads: number, batch: number, M: number, N: number): Promise<number[]> {
  const backend = await cpu({ threads });
  const [a, b, c] = [f32(batch, M, 400), f32(batch, 400, N), f32(batch, M, N)];
  const program = programOf({ inputs: [a, b], instructions: [matmul(0, 1, c)], outputs: [2] });
  const executable = await backend.compile(program);
  const inputs = [a, b].map(({ shape }, index) =>
    upload(
      backend,
      numbers(
        shape.reduce((all, size) => all * size, 1),
        index,
      ),
    ),
  );
  const output = backend.alloc(batch * M * N * 4);
  await executable.run(inputs, [output]);
  return download(backend, output);
}

const productOf = (rows: number, columns: number, depth: number): MatrixProduct => ({
  kind: 'f32 to f32',
  leftPacking: 'f32',
  rightPacking: 'f32',
  rows,
  columns,
  depth,
  left: { byteOffset: 0, rowStride: depth, columnStride: 1 },
  right: { byteOffset: 0, rowStride: columns, columnStride: 1 },
  result: { byteOffset: 0, rowStride: columns },
  scale: 1,
  addend: null,
  rounds: false,
});

describe('products on several threads', () => {
  it.each([
    { of: 'rows', batch: 1, M: 500, N: 300 },
    { of: 'columns', batch: 1, M: 300, N: 500 },
    { of: 'matrices', batch: 5, M: 170, N: 180 },
  ])('that share out $of have the bits that one thread makes', async ({ batch, M, N }) => {
    const [alone, shared] = [await productBy(1, batch, M, N), await productBy(2, batch, M, N)];
    expect(shared).toEqual(alone);
  });

  it('have the bits that one thread makes, in many products of all sizes one after the other', async () => {
    const [alone, shared] = [await cpu({ threads: 1 }), await cpu({ threads: 2 })];
    // Products of these sizes take microseconds to milliseconds, and some are shared out by rows.
    for (const [M, K, N] of [
      [1, 512, 600],
      [3, 700, 1000],
      [40, 300, 400],
      [300, 200, 100],
    ] as const) {
      const [a, b, c] = [f32(M, K), f32(K, N), f32(M, N)];
      const program = programOf({ inputs: [a, b], instructions: [matmul(0, 1, c)], outputs: [2] });
      const results: number[][] = [];
      for (const backend of [alone, shared]) {
        const executable = await backend.compile(program);
        const inputs = [upload(backend, numbers(M * K, 1)), upload(backend, numbers(K * N, 2))];
        const output = backend.alloc(4 * M * N);
        for (let index = 0; index < 50; index++) {
          await executable.run(inputs, [output]);
        }
        results.push(await download(backend, output));
      }
      expect(results[1]).toEqual(results[0]);
    }
  });

  it.each(Object.entries(codes))(
    'are shared out by %s so that every element is made once',
    (_, code) => {
      const size = fc.integer({ min: 200, max: 2000 });
      fc.assert(
        fc.property(size, size, fc.integer({ min: 1, max: 6 }), (rows, columns, threads) => {
          const addend = { byteOffset: 0, rowStride: columns };
          const product = { ...productOf(rows, columns, 2000), addend };
          const sharing = { code, threads, crew: null, canOverlap: true };
          const parts = splitProducts([product], sharing).flat();
          expect(parts.length).toBeLessThanOrEqual(threads);
          const elements = parts.reduce((sum, part) => sum + part.rows * part.columns, 0);
          expect(elements).toBe(rows * columns);
          let next = 0;
          for (const part of parts) {
            expect(part.result.byteOffset).toBe(next);
            expect(part.addend?.byteOffset).toBe(next);
            next += 4 * (part.columns === columns ? part.rows * columns : part.columns);
          }
        }),
        { numRuns: 50 },
      );
    },
  );

  it.each(Object.entries(codes))(
    'of groups are shared out by %s so that every element of each group is made once',
    (_, code) => {
      const counts = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 6 });
      fc.assert(
        fc.property(counts, fc.integer({ min: 1, max: 4 }), (rows, threads) => {
          const columns = 16;
          const starts = rows.map((_, group) => rows.slice(0, group).reduce((a, b) => a + b, 0));
          const products = rows.map((count, group) => ({
            ...productOf(count, columns, 100_000),
            result: { byteOffset: 4 * columns * (starts[group] ?? 0), rowStride: columns },
          }));
          const sharing = { code, threads, crew: {}, canOverlap: true };
          const parts = splitProducts(products, sharing);
          expect(parts.length).toBeLessThanOrEqual(threads);
          const made = parts
            .flat()
            .flatMap((part) =>
              Array.from({ length: part.rows }, (_, row) =>
                Array.from(
                  { length: part.columns },
                  (_, column) => part.result.byteOffset / 4 + row * columns + column,
                ),
              ).flat(),
            );
          const all = rows.reduce((a, b) => a + b, 0) * columns;
          expect(made.toSorted((a, b) => a - b)).toEqual(
            Array.from({ length: all }, (_, at) => at),
          );
        }),
        { numRuns: 30 },
      );
    },
  );
});

describe('loops behind a product on several threads', () => {
  const loopOn = (rows: number, columns: number): BlockLoop => ({
    routine: 1n,
    numbers: loopNumbers(rows, columns),
    columns,
    values: [7],
    operands: [{ dtype: 'f32', access: 'element', elementOffset: 0 }],
  });
  const resourcesOf = (code: ProductCode, threads: number): ProductResources => ({
    code,
    plannedTasks: new PlannedTasks(code),
    threads,
    crew: null,
    packedOf: (_, byteLength) => new Uint8Array(byteLength),
    tile: (_, byteLength) => new Uint8Array(byteLength),
    canOverlap: true,
    leavesThread: true,
  });

  it.each(Object.entries(codes))(
    'by %s run on the rows of each thread, every row once and in order',
    (_, code) => {
      const [rows, columns] = [900, 300];
      const parts = partsWithLoops(
        productOf(rows, columns, 500),
        [loopOn(rows, columns)],
        resourcesOf(code, 3),
      );
      expect(parts).toHaveLength(3);
      let next = 0;
      for (const { part, addresses } of parts ?? []) {
        for (const { word, value, byteOffset } of addresses) {
          const first = word - callWords.addresses;
          const blockRows = Number(part.tasks[first + callWords.rows]);
          expect([value, byteOffset]).toEqual([7, 4 * next * columns]);
          expect(part.tasks[first + callWords.firstIndex]).toBe(BigInt(next * columns));
          next += blockRows;
        }
      }
      expect(next).toBe(rows);
    },
  );

  it.each(Object.entries(codes))(
    'by %s run behind all threads where these share out columns',
    (_, code) => {
      const [rows, columns] = [300, 900];
      const loops = [loopOn(rows, columns)];
      expect(
        partsWithLoops(productOf(rows, columns, 500), loops, resourcesOf(code, 3)),
      ).toBeUndefined();
      expect(
        partsWithLoops(productOf(rows, columns, 500), loops, resourcesOf(code, 1)),
      ).toHaveLength(1);
    },
  );
});
