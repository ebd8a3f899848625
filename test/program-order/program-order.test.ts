import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import type { Seen, Situation } from './situations.ts';

async function seenBy(situation: Situation): Promise<readonly Seen[]> {
  const url = new URL('./situations.ts', import.meta.url);
  const world = createThreadsWorld({ size: 2 });
  return (await spawnRanks(2, url, { world, data: situation })) as readonly Seen[];
}

describe('collectives happen in the order of the program', () => {
  test.each<[Situation, readonly Seen[]]>([
    [
      'a metric that one rank reads first',
      [
        [3, 21],
        [3, 21],
      ],
    ],
    [
      'a gather that one rank reads first',
      [
        [1, 2, 10, 11],
        [1, 2, 10, 11],
      ],
    ],
    ['metrics that one rank never reads', [[21, 3, 201], [201]]],
    ['a metric that nobody waits for on the other rank', [[3], []]],
    [
      'a call of the group after a metric',
      [
        [11, 3],
        [11, 3],
      ],
    ],
    ['a call that memory does not suffice for, and a smaller one', [[3000], [3000]]],
  ])('%s', async (situation, expected) => {
    expect(await seenBy(situation)).toEqual(expected);
  });

  test.each<[Situation, Situation]>([
    ['towers of fsdp, text read early', 'towers of fsdp'],
    ['towers of fsdp, loss read early', 'towers of fsdp'],
    ['towers of fsdp, a result read after backward', 'towers of fsdp'],
    ['towers of zero 3, text read early', 'towers of zero 3'],
    ['steps of a pipeline that nobody waits for', 'steps of a pipeline'],
    ['towers of tensor parallelism, text read early', 'towers of tensor parallelism'],
    ['towers of tensor parallelism, offloaded, loss read early', 'towers of tensor parallelism'],
  ])('%s: they train as %s', async (situation, unread) => {
    expect(await seenBy(situation)).toEqual(await seenBy(unread));
  });
});

describe('collectives that are not the same are never paired', () => {
  test.each<[Situation, readonly RegExp[]]>([
    ['branches of fsdp', [/a\.weight/, /b\.weight/]],
    ['branches of zero 3', [/a\.weight/, /b\.weight/]],
    ['two models of one class under fsdp', [/'image\.0\.weight' of model 2/]],
    ['frozen branches of fsdp', [/a\.weight/, /b\.weight/]],
    ['parameters that ranks read in another order', [/a\.weight/, /b\.weight/]],
    ['a swapped pair', [/situations\.ts:\d+:\d+/]],
    ['calls that differ and that nobody waits for', [/situations\.ts:\d+:\d+/]],
    ['one call more', [/situations\.ts:\d+:\d+/]],
  ])('%s: both ranks hear of both', async (situation, patterns) => {
    for (const seen of await seenBy(situation)) {
      expect(seen).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
      for (const pattern of patterns) {
        expect('message' in seen ? seen.message : '').toMatch(pattern);
      }
    }
  });

  test('swapped messages: a receiver finds it, and the group of both ends', async () => {
    const seen = await seenBy('swapped messages');
    const codes = seen.map((each) => ('code' in each ? each.code : ''));
    expect(codes).toContain('COLLECTIVE_MISMATCH');
    for (const each of seen) {
      expect('message' in each ? each.message : '').toMatch(
        /sendRecv at \S*situations\.ts:\d+:\d+/,
      );
    }
  });
});
