import { describe, expect, test } from 'vitest';
import { play, type Seen, type Situation } from './situations.ts';

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
    expect(await play(situation)).toEqual(expected);
  });

  test.each<[Situation, Situation]>([
    ['towers of fsdp, text read early', 'towers of fsdp'],
    ['towers of fsdp, loss read early', 'towers of fsdp'],
    ['towers of fsdp, a result read after backward', 'towers of fsdp'],
    ['towers of zero 3, text read early', 'towers of zero 3'],
    ['rows of all ranks, output read early', 'rows of all ranks'],
    [
      'uneven towers of fsdp that keeps parameters, text read early',
      'uneven towers of fsdp that keeps parameters',
    ],
    ['steps of a pipeline that nobody waits for', 'steps of a pipeline'],
    ['towers of tensor parallelism, text read early', 'towers of tensor parallelism'],
    ['towers of tensor parallelism, offloaded, loss read early', 'towers of tensor parallelism'],
  ])('%s: they train as %s', async (situation, unread) => {
    expect(await play(situation)).toEqual(await play(unread));
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
    for (const each of await play(situation)) {
      expect(each).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
      for (const pattern of patterns) {
        expect('message' in each ? each.message : '').toMatch(pattern);
      }
    }
  });

  test('swapped messages: a receiver finds it, and the group of both ends', async () => {
    const both = await play('swapped messages');
    const codes = both.map((each) => ('code' in each ? each.code : ''));
    expect(codes).toContain('COLLECTIVE_MISMATCH');
    for (const each of both) {
      expect('message' in each ? each.message : '').toMatch(
        /sendRecv at \S*situations\.ts:\d+:\d+/,
      );
    }
  });
});
