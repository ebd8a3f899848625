import { manualSeed } from '@shardwise/core';
import { nextKey, withCoordinateKeys } from '@shardwise/core/extend';
import { assert, asyncProperty, integer, nat } from 'fast-check';
import { describe, expect, it } from 'vitest';

async function keyAt(coordinates: readonly number[]): Promise<readonly number[]> {
  const key = coordinates.reduceRight<() => ReturnType<typeof nextKey>>(
    (draw, coordinate) => () => withCoordinateKeys(coordinate, draw),
    nextKey,
  )();
  return [...(await key.data())].map(Number);
}

describe('keys of a coordinate', () => {
  it('are a pure function of the seed, the coordinates and how many were drawn', async () => {
    manualSeed(7);
    const first = [await keyAt([1]), await keyAt([1, 2])];
    manualSeed(7);
    expect([await keyAt([1]), await keyAt([1, 2])]).toEqual(first);
  });

  it('differ from each other, from those of other nestings, and from those without', async () => {
    const lists = [[], [0], [1], [2], [3], [0, 0], [0, 1], [1, 0], [1, 1]];
    const seeds: (number | undefined)[] = [];
    for (const coordinates of lists) {
      manualSeed(7);
      seeds.push((await keyAt(coordinates))[0]);
    }
    expect(new Set(seeds).size).toBe(lists.length);
  });

  it('differ for any two coordinates of one seed', async () => {
    const coordinate = nat({ max: 2 ** 20 });
    await assert(
      asyncProperty(integer(), coordinate, coordinate, async (seed, a, b) => {
        manualSeed(seed);
        const [first] = await keyAt([a]);
        const [second] = await keyAt([b]);
        expect(first === second).toBe(a === b);
      }),
    );
  });

  it('count with the others, and end with the region, also where it fails', async () => {
    manualSeed(7);
    const plain = await keyAt([]);
    expect(() =>
      withCoordinateKeys(1, () => {
        nextKey();
        throw new RangeError('a fault');
      }),
    ).toThrow('a fault');
    expect(await keyAt([])).toEqual([plain[0], 2]);
  });
});
