import {
  defaultGenerator,
  Generator,
  manualSeed,
  nn,
  ones,
  rand,
  randint,
  randn,
  randomState,
  randperm,
  setRandomState,
  setRank,
} from '@shardwise/core';
import { nextKey, withBatchPart, withCoordinateKeys } from '@shardwise/core/extend';
import { interpreter } from '@shardwise/testing';
import { assert, asyncProperty, integer, nat } from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';

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

describe('random numbers of a part of the batch', () => {
  beforeAll(() => {
    setRank({ device: interpreter() });
  });

  const draws = async (): Promise<readonly (readonly number[])[]> => {
    const tensors = [nextKey(), rand([4]), randn([4]), randint(0, 1000, [4]), randperm(40)];
    return Promise.all(tensors.map(async (each) => Array.from(await each.data(), Number)));
  };
  const drawsOf = (part: number): Promise<readonly (readonly number[])[]> => {
    manualSeed(7);
    return withBatchPart(part, () => ({ draws: draws() })).draws;
  };

  it('are a pure function of the seed, the part and how many were drawn, and differ between parts', async () => {
    const parts = [await drawsOf(0), await drawsOf(1), await drawsOf(2)];
    expect(await drawsOf(1)).toEqual(parts[1]);
    manualSeed(7);
    const without = await draws();
    for (const [index] of without.entries()) {
      const lists = [without, ...parts].map((own) => JSON.stringify(own[index]));
      expect(new Set(lists).size).toBe(4);
    }
  });

  it('differ from those of coordinates, inside and outside of them', async () => {
    const keys: string[] = [];
    const note = async (draw: () => ReturnType<typeof nextKey>): Promise<void> => {
      manualSeed(7);
      keys.push(String(await draw().data()));
    };
    await note(nextKey);
    await note(() => withBatchPart(1, () => withCoordinateKeys(0, nextKey)));
    await note(() => withBatchPart(0, () => withCoordinateKeys(1, nextKey)));
    await note(() => withBatchPart(0, () => withCoordinateKeys(0, nextKey)));
    await note(() => withCoordinateKeys(1, nextKey));
    expect(new Set(keys).size).toBe(5);
    await note(() => withCoordinateKeys(0, () => withBatchPart(1, nextKey)));
    expect(keys[5]).toBe(keys[1]);
  });

  it('leave the default generator as it is, from which layers draw initial values', async () => {
    manualSeed(7);
    const expected = [...defaultGenerator().rand(3)];
    const plain = Array.from(await new nn.Linear(2, 2).weight.data(), Number);
    manualSeed(7);
    const weight = withBatchPart(3, () => {
      nn.functional.dropout(randn([4]));
      expect([...defaultGenerator().rand(3)]).toEqual(expected);
      return new nn.Linear(2, 2).weight;
    });
    expect(Array.from(await weight.data(), Number)).toEqual(plain);
  });

  it('are those of a generator, or of a key, that is given', async () => {
    const key = nextKey();
    const given = (): readonly ReturnType<typeof rand>[] => [
      rand([4], { generator: new Generator(5) }),
      nn.functional.dropout(ones([32]), 0.5, key),
    ];
    for (const [index, each] of given().entries()) {
      const own = withBatchPart(1, () => given()[index]);
      expect(await own?.data()).toEqual(await each.data());
    }
  });

  it('go on from a saved state', async () => {
    await drawsOf(2);
    const state: unknown = JSON.parse(JSON.stringify(randomState()));
    const next = (): Promise<readonly (readonly number[])[]> =>
      withBatchPart(2, () => ({ draws: draws() })).draws;
    const expected = await next();
    setRandomState(state);
    expect(await next()).toEqual(expected);
  });

  it('refuse a forward pass that goes on after an await, outside of them', () => {
    expect(() => withBatchPart(1, async () => {})).toThrow(
      'forward with a body that returns a promise',
    );
  });
});
