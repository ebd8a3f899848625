import { cpu } from '@shardwise/backend-cpu';
import { fromData, setRank, type Tensor } from '@shardwise/core';
import { blockedLinear, functional } from '@shardwise/core/extend';
import { describe, expect, test } from 'vitest';
import { ggufFormats } from '../src/quantized/gguf-formats.ts';

// Products with weights that stay in the blocks of a GGUF file, and products with what these blocks decode to.

/** Random numbers of 32 bits, the same in each run. */
function randomBits(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const mixed = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d);
    return (mixed ^ (mixed >>> 13)) >>> 0;
  };
}

/** Bytes of all values, so that scales are subnormal, infinite and no numbers, too. */
function randomBytes(count: number, seed: number): Uint8Array<ArrayBuffer> {
  const next = randomBits(seed);
  return Uint8Array.from({ length: count }, () => next() >>> 24);
}

function rowsOf(rows: number, depth: number, seed: number): Tensor {
  const next = randomBits(seed);
  const values = Float32Array.from({ length: rows * depth }, () => next() / 2 ** 31 - 1);
  return fromData(values, [rows, depth], 'f32');
}

async function numbersOf(x: Tensor): Promise<Float32Array> {
  return Float32Array.from(await x.data(), Number);
}

/** The place of the first number that differs, also in the sign of 0, or -1. */
function firstDifference(found: Float32Array, expected: Float32Array): number {
  expect(found).toHaveLength(expected.length);
  return found.findIndex((value, index) => !Object.is(value, expected[index]));
}

const sizes = [
  { threads: 1, columns: 37, blocks: 1 },
  { threads: 2, columns: 1031, blocks: 3 },
] as const;

describe.each(Object.values(ggufFormats))('a weight in blocks of $name', (format) => {
  const decoded = (weight: Tensor, depth: number): Tensor =>
    format.decode(weight.reshape([-1, format.bytes])).reshape([-1, depth]);

  test.each(sizes)(
    'with $threads threads gives the bits of the product with its numbers ($columns columns)',
    async ({ threads, columns, blocks }) => {
      setRank({ device: await cpu({ threads, batchInvariant: true }) });
      // More than 512 terms, and no multiple of them.
      const count = blocks === 1 ? 1 : 512 / format.elements + 1;
      const depth = count * format.elements;
      const bytes = randomBytes(columns * count * format.bytes, columns + blocks);
      const weight = fromData(bytes, [columns, count * format.bytes], 'u8');
      for (const rows of threads === 1 ? [1, 2, 3, 4, 5, 6, 7, 8, 32] : [1, 7, 32]) {
        const x = rowsOf(rows, depth, rows);
        const found = await numbersOf(blockedLinear(x, weight, format));
        const expected = await numbersOf(functional.linear(x, decoded(weight, depth)));
        expect(firstDifference(found, expected), `${rows} rows`).toBe(-1);
      }
    },
  );
});
