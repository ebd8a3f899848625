import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { fromData, setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { decodeBlocks, encodeBlocks } from '../src/local-sgd/messages/block-codes.ts';
import {
  agree,
  type CompressionErrors,
  noErrors,
} from '../src/local-sgd/messages/outer-messages.ts';
import { quantizedBytes, quantizeRows } from '../src/sharded/quantized/quantize-rows.ts';

beforeEach(() => setRank({ device: interpreter() }));

/** Numbers of very different magnitudes. Shape: [n]. */
function numbers(length: number, seed: number): Float32Array {
  return Float32Array.from({ length }, (_, at) => {
    return Math.sin(12.9898 * (at + 1) + 78.233 * seed) * 2 ** (Math.floor(at / 256) * 5 - 3);
  });
}

describe('values in few bits', () => {
  it('are nearest multiples of the largest magnitude divided by 7, two codes in a byte', () => {
    const message = encodeBlocks(Float32Array.of(7, -7, 2.5, 3.5, -0.4), 4);
    // The scale is 1. The codes are 7, -7, 2, 4 and 0, each plus 8: halves go to the even neighbour.
    expect([...message]).toEqual([0, 0, 128, 63, 15 + 1 * 16, 10 + 12 * 16, 8]);
    expect([...decodeBlocks(message, 5, 4)]).toEqual([7, -7, 2, 4, 0]);
  });

  it.each([4, 8] as const)('of %s bits are those of quantizeRows', async (bits) => {
    for (const length of [1, 255, 256, 257, 700]) {
      const values = numbers(length, 1);
      const { codes, scales } = quantizeRows(fromData(values.slice(), [1, length], 'f32'), bits);
      const message = encodeBlocks(values, bits);
      expect(message).toHaveLength(quantizedBytes(length, bits));
      const expectedScales = Array.from(await scales.data(), Number);
      const bytes = expectedScales.length * 4;
      expect([...new Float32Array(message.slice(0, bytes).buffer)]).toEqual(expectedScales);
      expect([...message.subarray(bytes)]).toEqual(Array.from(await codes.data(), Number));
    }
  });

  it('of a block that is not finite are not finite, and the other blocks are as they were', () => {
    for (const wrong of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const values = numbers(512, 2);
      const alone = decodeBlocks(encodeBlocks(values, 4), 512, 4).subarray(256);
      values[3] = wrong;
      const found = decodeBlocks(encodeBlocks(values, 4), 512, 4);
      expect(found.subarray(0, 256).some(Number.isFinite)).toBe(false);
      expect(found.subarray(256)).toEqual(alone);
    }
  });

  it('of zeros are zeros', () => {
    expect([...decodeBlocks(encodeBlocks(new Float32Array(3), 8), 3, 8)]).toEqual([0, 0, 0]);
  });
});

describe('a mean of few bits', () => {
  const size = 3;
  const length = 700;
  const rounds = 40;

  /** The means of all rounds on each rank, and what is owed at the end. */
  async function run(bits: 4 | 8): Promise<{
    readonly sums: readonly Float64Array[];
    readonly exact: Float64Array;
    readonly errors: readonly CompressionErrors[];
  }> {
    const groups = createLoopbackTransports(size).map((transport) => createGroup(transport));
    const errors = groups.map(() => noErrors(length, size));
    const sums = groups.map(() => new Float64Array(length));
    const exact = new Float64Array(length);
    for (let round = 0; round < rounds; round++) {
      const own = groups.map((_, rank) => numbers(length, round * size + rank));
      for (const each of own)
        each.forEach((value, at) => (exact[at] = (exact[at] ?? 0) + value / size));
      const means = await Promise.all(
        groups.map((group, rank) => {
          const { [rank]: values = new Float32Array(0) } = own;
          const { [rank]: owed = noErrors(0, size) } = errors;
          return agree(values, group, { bits, aggregation: { rule: 'mean', faulty: 0 } }, owed);
        }),
      );
      for (const mean of means) expect(mean).toEqual(means[0]);
      means.forEach((mean, rank) => {
        mean.forEach((value, at) => {
          const { [rank]: sum = new Float64Array(0) } = sums;
          sum[at] = (sum[at] ?? 0) + value;
        });
      });
    }
    for (const group of groups) group.close();
    return { sums, exact, errors };
  }

  it.each([4, 8] as const)(
    'of %s bits loses nothing in sum: what is missing is in the errors',
    async (bits) => {
      const { sums, exact, errors } = await run(bits);
      const part = Math.ceil(length / size);
      for (const sum of sums) {
        sum.forEach((value, at) => {
          const workers = errors.reduce((all, { worker }) => all + (worker[at] ?? 0), 0) / size;
          const server = errors[Math.floor(at / part)]?.server[at % part] ?? 0;
          const scale = 2 ** (Math.floor(at / 256) * 5 - 3);
          expect(Math.abs(value + workers + server - (exact[at] ?? 0)) / scale).toBeLessThan(1e-4);
        });
      }
    },
  );
});
