import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Living, packScratch } from '../src/realize/pack-scratch.ts';

interface Placed extends Living {
  readonly page: number;
  readonly start: number;
}

const alignment = 64;

function pack(blocks: readonly Living[], bufferBytes: number) {
  const placed: Placed[] = [];
  const pages = packScratch(blocks, [], {
    alignment,
    bufferBytes,
    put: (block, { memory }, start) => {
      if ('page' in memory) placed.push({ ...block, page: memory.page, start });
    },
  });
  return { placed, pages };
}

const someBlocks = fc.array(
  fc
    .tuple(fc.nat(2000), fc.nat(20), fc.nat(6))
    .map(([byteLength, from, steps]) => ({ byteLength, from, to: from + steps })),
  { maxLength: 30 },
);

describe('scratch memory of a plan', () => {
  it('has no two blocks in the same bytes that are needed at once, nor one beyond its page', () => {
    fc.assert(
      fc.property(someBlocks, fc.constantFrom(500, 1000, 3000, Infinity), (blocks, bufferBytes) => {
        const { placed, pages } = pack(blocks, bufferBytes);
        expect(placed).toHaveLength(blocks.length);
        for (const [number, block] of placed.entries()) {
          expect(block.start % alignment).toBe(0);
          expect(block.start + block.byteLength).toBeLessThanOrEqual(pages[block.page] ?? -1);
          for (const other of placed.slice(number + 1)) {
            const isAtOnce = block.from <= other.to && other.from <= block.to;
            const isTogether =
              block.page === other.page &&
              block.start < other.start + other.byteLength &&
              other.start < block.start + block.byteLength;
            expect(isAtOnce && isTogether).toBe(false);
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  it('has pages of no more bytes than a buffer may have, but for a block that is larger itself', () => {
    fc.assert(
      fc.property(someBlocks, (blocks) => {
        const { placed, pages } = pack(blocks, 1000);
        for (const [page, bytes] of pages.entries()) {
          const largest = Math.max(
            ...placed.filter((each) => each.page === page).map(({ byteLength }) => byteLength),
          );
          expect(bytes).toBeLessThanOrEqual(Math.max(1000, largest));
        }
      }),
      { numRuns: 60 },
    );
  });

  it('is one page where buffers have no limit', () => {
    const blocks = Array.from({ length: 5 }, () => ({ byteLength: 1000, from: 0, to: 1 }));
    expect(pack(blocks, Infinity).pages).toEqual([5 * 1024]);
    expect(pack(blocks, 2048).pages).toEqual([2048, 2048, 1024]);
    expect(pack([], 2048).pages).toEqual([]);
  });
});
