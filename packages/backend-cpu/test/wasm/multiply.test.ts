import { createSharedMemory } from '@shardwise/wasm-assembler';
import { describe, expect, it } from 'vitest';
import {
  type Multiplication,
  Multiplier,
  packedBytesOf,
} from '../../src/emit/wasm/multiply/multiply.ts';
import { uniform } from './kernel-fixture.ts';

const memory = createSharedMemory(2 ** 24);
const multiplier = new Multiplier(memory);
const numbers = new Float32Array(memory.buffer);

interface Case {
  readonly sizes: readonly [rows: number, columns: number, depth: number];
  readonly left?: 'by columns';
  readonly right?: 'by columns';
  readonly addend?: 'matrix' | 'row';
}

/**
 * Returns the largest error of a product, in units of the error that rounding each of its terms may cause, and the
 * numbers behind the result.
 */
function errorOf({ sizes, left, right, addend }: Case): { error: number; behind: number[] } {
  const [rows, columns, depth] = sizes;
  const random = uniform(3);
  let top = 0;
  const place = (count: number): number => {
    const start = top;
    for (let index = start; index < start + count; index++) numbers[index] = random() - 0.5;
    top = Math.ceil((start + count) / 4) * 4;
    return 4 * start;
  };
  const [a, b, c] = [place(rows * depth), place(depth * columns), place(rows * columns)];
  const d = place(rows * columns);
  const behind = numbers.subarray(c / 4 + rows * columns, d / 4);
  const before = [...behind];
  const [rowA, columnA] = left === undefined ? [depth, 1] : [1, rows];
  const [rowB, columnB] = right === undefined ? [columns, 1] : [1, depth];
  const addendRow = addend === 'row' ? 0 : columns;
  const product: Multiplication = {
    rows,
    columns,
    depth,
    left: { address: a, rowStride: rowA, columnStride: columnA },
    right: { address: b, rowStride: rowB, columnStride: columnB },
    result: { address: c, rowStride: columns },
    scale: 3,
    addend: addend === undefined ? null : { address: d, rowStride: addendRow },
  };
  numbers.fill(Number.NaN, c / 4, c / 4 + rows * columns);
  const packed = 4 * top;
  const end = packed + packedBytesOf(product);
  numbers.fill(7, packed / 4, end / 4 + 4);
  multiplier.run(product, packed);
  let error = 0;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let sum = 0;
      for (let term = 0; term < depth; term++) {
        const x = numbers[a / 4 + row * rowA + term * columnA] ?? 0;
        sum += x * (numbers[b / 4 + term * rowB + column * columnB] ?? 0);
      }
      const added = addend === undefined ? 0 : (numbers[d / 4 + row * addendRow + column] ?? 0);
      const found = numbers[c / 4 + row * columns + column] ?? 0;
      const one = Math.abs(3 * sum + added - found);
      if (!(one <= error)) error = one;
    }
  }
  const changed = [...numbers.subarray(end / 4, end / 4 + 4)].filter((value) => value !== 7);
  const differing = [...behind].filter((value, index) => value !== before[index]);
  return { error: error / (2 ** -24 * depth), behind: [...changed, ...differing] };
}

describe('a product by WebAssembly', () => {
  it.each<Case>([
    { sizes: [1, 1, 1] },
    { sizes: [1, 9, 5] },
    { sizes: [7, 1, 300], left: 'by columns' },
    { sizes: [6, 8, 4] },
    { sizes: [5, 7, 3], right: 'by columns', addend: 'row' },
    { sizes: [13, 17, 257], left: 'by columns', addend: 'matrix' },
    { sizes: [97, 20, 256], left: 'by columns', right: 'by columns' },
    { sizes: [100, 515, 259], addend: 'row' },
  ])('is right at $sizes, and writes nothing else', (product) => {
    const { error, behind } = errorOf(product);
    expect(error).toBeLessThan(4);
    expect(behind).toEqual([]);
  });

  it('can read its addend from the memory of its result', () => {
    numbers.set([1, 2, 3, 4, 10, 20], 0);
    const result = { address: 16, rowStride: 1 };
    const product: Multiplication = {
      rows: 2,
      columns: 1,
      depth: 1,
      left: { address: 0, rowStride: 1, columnStride: 1 },
      right: { address: 8, rowStride: 1, columnStride: 1 },
      result,
      scale: 1,
      addend: result,
    };
    multiplier.run(product, 64);
    expect([...numbers.subarray(4, 6)]).toEqual([13, 26]);
  });
});
