import { readFileSync } from 'node:fs';
import { SequenceCut } from '@shardwise/strategies';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { SequenceCuts } from '../src/context-parallel/sequence-cuts.ts';

/** What tools/golden-context-parallel.py records. */
const golden = z
  .array(
    z.object({
      length: z.number(),
      ranks: z.number(),
      places: z.array(z.number()),
      restored: z.array(z.number()),
    }),
  )
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/context-parallel.json`, 'utf8')));

const rules = fc
  .record({
    groups: fc.integer({ min: 1, max: 5 }),
    neighbours: fc.integer({ min: 1, max: 4 }),
    order: fc.constantFrom('headTail' as const, 'contiguous' as const),
    length: fc.integer({ min: 1, max: 200 }),
  })
  .map(({ groups, neighbours, order, length }) => {
    return new SequenceCut(length, { ranks: groups * neighbours, neighbours, order });
  });

describe('SequenceCut', () => {
  it('gives each rank a piece from the front and one from the back', () => {
    const cut = new SequenceCut(8, { ranks: 2, neighbours: 1, order: 'headTail' });
    expect([0, 1].map((rank) => [...cut.placesOf(rank)])).toEqual([
      [0, 1, 6, 7],
      [2, 3, 4, 5],
    ]);
    expect(cut.causalPairs()).toEqual([18, 18]);
  });

  it('gives each rank tokens that follow each other in the contiguous order', () => {
    const cut = new SequenceCut(8, { ranks: 2, neighbours: 1, order: 'contiguous' });
    expect([0, 1].map((rank) => [...cut.placesOf(rank)])).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
    ]);
    expect(cut.causalPairs()).toEqual([10, 26]);
  });

  it('divides the block of a group among neighbouring ranks', () => {
    const cut = new SequenceCut(16, { ranks: 4, neighbours: 2, order: 'headTail' });
    expect([0, 1, 2, 3].map((rank) => [...cut.placesOf(rank)])).toEqual([
      [0, 1, 2, 3],
      [12, 13, 14, 15],
      [4, 5, 6, 7],
      [8, 9, 10, 11],
    ]);
    expect(cut.causalPairs()).toEqual([34, 34, 34, 34]);
  });

  it.each(golden)('gives $ranks ranks the tokens of $length that PyTorch gives them', (each) => {
    const { length, ranks, places, restored } = each;
    const cut = new SequenceCut(length, { ranks, neighbours: 1, order: 'headTail' });
    const own = Array.from({ length: ranks }, (_, rank) => [...cut.placesOf(rank)]).flat();
    expect(own).toEqual(places);
    const inOrder = cut
      .inOrder('ranks')
      .flatMap(({ start, stop }) => Array.from({ length: stop - start }, (_, at) => start + at));
    expect(inOrder).toEqual(restored);
  });

  it('pads a sequence that the ranks do not divide', () => {
    const cut = new SequenceCut(5, { ranks: 2, neighbours: 1, order: 'headTail' });
    expect(cut.paddedLength).toBe(8);
    expect(cut.multiple).toBe(4);
  });

  it('gives each place to one rank, in ascending order, and as many to each', () => {
    fc.assert(
      fc.property(rules, (cut) => {
        const { ranks } = cut.over;
        const parts = Array.from({ length: ranks }, (_, rank) => [...cut.placesOf(rank)]);
        for (const part of parts) {
          expect(part).toHaveLength(cut.localLength);
          expect(part).toEqual(part.toSorted((a, b) => a - b));
        }
        const all = parts.flat().toSorted((a, b) => a - b);
        expect(all).toEqual(Array.from({ length: cut.paddedLength }, (_, place) => place));
        expect(cut.paddedLength - cut.length).toBeLessThan(cut.multiple);
      }),
    );
  });

  it('finds the order of the sequence in the parts of ranks and in the blocks of groups', () => {
    fc.assert(
      fc.property(rules, (cut) => {
        const places = {
          ranks: Array.from({ length: cut.over.ranks }, (_, rank) => [
            ...cut.placesOf(rank),
          ]).flat(),
          groups: Array.from({ length: cut.groups }, (_, group) =>
            cut
              .stretchesOfGroup(group)
              .flatMap(({ start, stop }) =>
                Array.from({ length: stop - start }, (__, at) => start + at),
              ),
          ).flat(),
        };
        for (const parts of ['ranks', 'groups'] as const) {
          const taken = cut
            .inOrder(parts)
            .flatMap(({ start, stop }) => places[parts].slice(start, stop));
          expect(taken).toEqual(Array.from({ length: cut.paddedLength }, (_, place) => place));
        }
      }),
    );
  });

  // These numbers are in apps/docs/pages/guides/context-parallel.md.
  it.each([
    [32, 32, 8, 1],
    [33, 40, 10, 1.46],
    [129, 136, 34, 1.11],
    [1025, 1032, 258, 1.014],
    [4097, 4104, 1026, 1.003],
  ])(
    'pads %i tokens to %i places, of which each of four ranks has %i, with %f of the mean of pairs at most',
    (tokens, places, own, balance) => {
      const cut = new SequenceCut(tokens, { ranks: 4, neighbours: 1, order: 'headTail' });
      const pairs = cut.causalPairs();
      const mean = pairs.reduce((sum, each) => sum + each, 0) / pairs.length;
      expect(cut).toMatchObject({ paddedLength: places, localLength: own });
      expect(Math.abs(Math.max(...pairs) / mean - balance)).toBeLessThan(0.005);
    },
  );

  it('balances causal attention within a twentieth, with two pieces for each group', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 16 }),
        fc.integer({ min: 1, max: 8 }),
        (groups, width) => {
          const length = 2 * groups * width;
          const pairs = new SequenceCut(length, {
            ranks: groups,
            neighbours: 1,
            order: 'headTail',
          }).causalPairs();
          const mean = pairs.reduce((sum, each) => sum + each, 0) / groups;
          expect(Math.max(...pairs) / mean).toBeLessThanOrEqual(1.05);
        },
      ),
    );
  });
});

describe('SequenceCuts', () => {
  it('give sequences of other lengths other numbers of places, and those of one length the same', () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(lengths, fc.integer({ min: 1, max: 4 }), (all, ranks) => {
        const cuts = new SequenceCuts(all, { ranks, neighbours: 1, order: 'headTail' });
        const places = cuts.all.map(({ localLength }) => localLength);
        expect(new Set(places).size).toBe(new Set(all).size);
        for (const length of all) {
          const cut = cuts.ofLength(length);
          expect(cut?.paddedLength).toBeGreaterThanOrEqual(length);
          expect(cuts.ofLocalLength(cut?.localLength)).toBe(cut);
        }
      }),
    );
  });
});
