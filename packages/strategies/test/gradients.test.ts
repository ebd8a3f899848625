import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { gradients, type cases, type Gradients } from './ranks/gradients.ts';

/**
 * The gradient of one element of each parameter on ranks 0, 1 and 2. All elements of a parameter have the same
 * gradient.
 */
type Expected = Readonly<Record<'left' | 'right' | 'shared', readonly [number, number, number]>>;

const everywhere = (value: number): readonly [number, number, number] => [value, value, value];
const own = [0, 1, 2] as const;

const expected: Readonly<Record<keyof typeof cases, Expected>> = {
  'ranks that use different branches': {
    left: everywhere((1 + 3) / 3),
    right: everywhere(2 / 3),
    shared: everywhere(1),
  },
  'two parameters that only rank 0 leaves out': {
    left: everywhere(2),
    right: everywhere(4),
    shared: everywhere(3),
  },
  'a gradient that rank 0 alone has read before': {
    left: everywhere((3 + 6 + 6) / 3),
    right: everywhere(0),
    shared: everywhere(3),
  },
  'a bucket for each parameter, where no rank uses the same one': {
    left: everywhere(1),
    right: everywhere(1),
    shared: everywhere(1),
  },
  'two losses of different branches, without findUnusedParameters': {
    left: everywhere(1),
    right: everywhere(1),
    shared: everywhere(3),
  },
  'losses in another order on each rank, without findUnusedParameters': {
    left: everywhere(3),
    right: everywhere(6),
    shared: everywhere(9),
  },
  "a hook of the user's, which sees what is this rank's": {
    left: everywhere(1 + 2),
    right: everywhere(6),
    shared: everywhere(6),
  },
  'passes inside noSync alone': { left: own, right: everywhere(1), shared: everywhere(1) },
  'noSync left by an error': { left: everywhere(1), right: everywhere(1), shared: everywhere(1) },
  'a model that was detached': { left: own, right: everywhere(1), shared: everywhere(1) },
};

describe('gradients on 3 ranks are the mean of the ranks, also with', () => {
  let ranks: readonly Record<string, Gradients>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size: 3, arenaBytes: 16 * 1024 * 1024 });
    const results = await runRanks(3, new URL('./ranks/gradients.ts', import.meta.url), {
      world,
    });
    ranks = z.array(z.record(z.string(), gradients)).parse(results);
  });

  it.each(Object.entries(expected))('%s', (name, { left, right, shared }) => {
    expect(ranks).toHaveLength(3);
    ranks.forEach((rank, index) => {
      const of = (elements: number, values: readonly number[]): number[] =>
        Array.from({ length: elements }, () => Math.fround(values[index] ?? 0));
      expect(rank[name], `on rank ${index}`).toEqual({
        left: of(5, left),
        right: of(5, right),
        shared: of(3, shared),
      });
    });
  });
});
