import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Living, packScratch } from '../src/realize/segments/pack-scratch.ts';

interface Placed extends Living {
  readonly buffer: number;
  readonly start: number;
}

const alignment = 64;

function pack(blocks: readonly Living[], bufferBytes: number) {
  const placed: Placed[] = [];
  const buffers = packScratch(blocks, [], {
    alignment,
    bufferBytes,
    put: (block, { memory }, start) => {
      if ('buffer' in memory) placed.push({ ...block, buffer: memory.buffer, start });
    },
  });
  return { placed, buffers };
}

const someBlocks = fc.array(
  fc
    .tuple(fc.nat(2000), fc.nat(20), fc.nat(6))
    .map(([byteLength, from, steps]) => ({ byteLength, from, to: from + steps })),
  { maxLength: 30 },
);

describe('scratch memory of a plan', () => {
  it('has no two blocks in the same bytes that are needed at once, nor one beyond its buffer', () => {
    fc.assert(
      fc.property(someBlocks, fc.constantFrom(500, 1000, 3000, Infinity), (blocks, bufferBytes) => {
        const { placed, buffers } = pack(blocks, bufferBytes);
        expect(placed).toHaveLength(blocks.length);
        for (const [number, block] of placed.entries()) {
          expect(block.start % alignment).toBe(0);
          expect(block.start + block.byteLength).toBeLessThanOrEqual(buffers[block.buffer] ?? -1);
          for (const other of placed.slice(number + 1)) {
            const isAtOnce = block.from <= other.to && other.from <= block.to;
            const isTogether =
              block.buffer === other.buffer &&
              block.start < other.start + other.byteLength &&
              other.start < block.start + block.byteLength;
            expect(isAtOnce && isTogether).toBe(false);
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  it('has buffers of no more bytes than a buffer may have, but for a block that is larger itself', () => {
    fc.assert(
      fc.property(someBlocks, (blocks) => {
        const { placed, buffers } = pack(blocks, 1000);
        for (const [buffer, bytes] of buffers.entries()) {
          const largest = Math.max(
            ...placed.filter((each) => each.buffer === buffer).map(({ byteLength }) => byteLength),
          );
          expect(bytes).toBeLessThanOrEqual(Math.max(1000, largest));
        }
      }),
      { numRuns: 60 },
    );
  });

  it('is one buffer where buffers have no limit', () => {
    const blocks = Array.from({ length: 5 }, () => ({ byteLength: 1000, from: 0, to: 1 }));
    expect(pack(blocks, Infinity).buffers).toEqual([5 * 1024]);
    expect(pack(blocks, 2048).buffers).toEqual([2048, 2048, 1024]);
    expect(pack([], 2048).buffers).toEqual([]);
  });
});
