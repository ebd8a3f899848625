import type { FlightDump } from '@shardwise/collectives';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { describeVerdict } from '../src/blame/describe-verdict.ts';
import { blame as blameOfPage } from '../src/browser/blame.ts';
import { findBlame } from '../src/blame/find-blame.ts';
import type { Verdict } from '../src/blame/verdict.ts';
import { call, dumpOf, message, type Call } from './flight-dumps.ts';

const world = { world: [0, 1, 2] };
const waiting = { state: 'scheduled', line: 20 } as const;

function verdictOf(dumps: readonly FlightDump[]): Verdict {
  return findBlame(new Map(dumps.map((dump) => [dump.rank, dump])));
}

function blame(dumps: readonly FlightDump[]): readonly string[] {
  return describeVerdict(verdictOf(dumps));
}

describe('blame in a page', () => {
  it('says what the command says', () => {
    const dumps = [
      dumpOf(0, world, [call('barrier'), call('allReduce')]),
      dumpOf(1, world, [call('barrier')]),
      dumpOf(2, world, [call('barrier'), call('allReduce')]),
    ];
    expect(blameOfPage(dumps)).toEqual(blame(dumps));
  });

  it('refuses to judge without dumps, and by two of one rank', () => {
    const twice = dumpOf(1, world, [call('barrier')]);
    expect(() => blameOfPage([])).toThrow('a verdict from the dumps of ranks: none');
    expect(() => blameOfPage([twice, twice])).toThrow('two of rank 1');
  });
});

describe('blame', () => {
  it('names the rank that calls another operation', () => {
    const usual = [call('broadcast', { line: 10 }), call('allReduce', waiting)];
    const lines = blame([
      dumpOf(0, world, usual),
      dumpOf(1, world, [
        call('broadcast', { line: 10 }),
        call('barrier', { line: 30, state: 'scheduled' }),
      ]),
      dumpOf(2, world, usual),
    ]);
    expect(lines).toEqual([
      'Rank 1 differs first, at call #1 of group world:',
      '  ranks 0, 2  allReduce(sum, f32 [4]) at /home/train.ts:20 (step)',
      '  rank 1      barrier() at /home/train.ts:30 (step)',
    ]);
  });

  it('names the rank that calls with another size', () => {
    const dumps = [4, 4, 5].map((elements, rank) =>
      dumpOf(rank, world, [call('allReduce', { state: 'scheduled', elements })]),
    );
    expect(blame(dumps)).toEqual([
      'Rank 2 differs first, at call #0 of group world:',
      '  ranks 0, 1  allReduce(sum, f32 [4])',
      '  rank 2      allReduce(sum, f32 [5])',
    ]);
  });

  it('takes the sizes that may differ as they are', () => {
    const dumps = [4, 5, 6].map((elements, rank) =>
      dumpOf(rank, world, [
        call('allToAll', {
          elements,
          splits: { input: [rank, 1, 2], output: [0, 1, 2].map((from) => [from, 1, 2][rank] ?? 0) },
        }),
      ]),
    );
    expect(verdictOf(dumps).kind).toBe('consistent');
  });

  it('names the two ranks whose splits do not fit', () => {
    const dumps = [0, 1, 2].map((rank) =>
      dumpOf(rank, world, [
        call('allToAll', {
          state: 'scheduled',
          splits: { input: [1, 1, 1], output: rank === 2 ? [1, 3, 1] : [1, 1, 1] },
        }),
      ]),
    );
    expect(blame(dumps)[0]).toBe('Ranks 1, 2 differ first, at call #0 of group world:');
  });

  it('names the rank that makes one call fewer, and its last one', () => {
    const all = [call('broadcast', { line: 10 }), call('allReduce', waiting)];
    expect(
      blame([dumpOf(0, world, all), dumpOf(1, world, all), dumpOf(2, world, all.slice(0, 1))]),
    ).toEqual([
      'Rank 2 is missing first, at call #1 of group world:',
      '  ranks 0, 1  allReduce(sum, f32 [4]) at /home/train.ts:20 (step)',
      '  rank 2      its last call was #0, broadcast(root 0, f32 [4]) at /home/train.ts:10 (step), completed',
    ]);
  });

  it('shows where a call was left out whose neighbours are like it', () => {
    const all = [10, 20, 30, 40].map((line) => call('allReduce', { line }));
    const less = [10, 30, 40].map((line) => call('allReduce', { line }));
    const ends = (calls: readonly Call[]): readonly Call[] => [...calls, call('barrier', waiting)];
    expect(
      blame([
        dumpOf(0, world, ends(all)),
        dumpOf(1, world, ends(less)),
        dumpOf(2, world, ends(all)),
      ]).slice(3),
    ).toEqual([
      'They called from different lines before that, first at call #1; one may have left out a call there:',
      '  ranks 0, 2  allReduce(sum, f32 [4]) at /home/train.ts:20 (step)',
      '  rank 1      allReduce(sum, f32 [4]) at /home/train.ts:30 (step)',
    ]);
  });

  it('says that no rank differs where all calls are completed', () => {
    const dumps = [0, 1, 2].map((rank) => dumpOf(rank, world, [call('barrier'), call('barrier')]));
    expect(blame(dumps)).toEqual([
      'No rank differs: all 6 calls that the dumps hold, on 1 groups, agree and are completed.',
    ]);
  });

  it('names the ranks that have not finished a call to which all came', () => {
    const dumps = [0, 1, 2].map((rank) =>
      dumpOf(rank, world, [call('barrier', { state: rank === 1 ? 'started' : 'completed' })]),
    );
    expect(blame(dumps)).toEqual([
      'All ranks came to call #0 of group world, but rank 1 has not finished it:',
      '  ranks 0, 2  barrier(), completed',
      '  rank 1      barrier(), started',
    ]);
  });

  it('names a rank without a dump where the others wait', () => {
    const calls = [call('barrier'), call('barrier', { state: 'scheduled' })];
    expect(blame([dumpOf(0, world, calls), dumpOf(2, world, calls)])).toEqual([
      'Rank 1 is missing first, at call #1 of group world:',
      '  ranks 0, 2  barrier()',
      '  rank 1      left no dump: it ended without one, or its thread was busy until it was ended',
    ]);
  });

  it('does not name a rank without a dump that a timeout has seen arrive', () => {
    const calls = [call('barrier', { state: 'scheduled', atMs: 0 })];
    const failure = { code: 'COLLECTIVE_TIMEOUT', atMs: 1000, recordId: 0, missing: [3] };
    const four = { world: [0, 1, 2, 3] };
    expect(blame([dumpOf(0, four, calls, { failure }), dumpOf(2, four, calls)])[0]).toBe(
      'Rank 3 is missing first, at call #0 of group world:',
    );
  });

  it('names a rank that came after the others had given up', () => {
    const failure = { code: 'COLLECTIVE_TIMEOUT', atMs: 1000, recordId: 0, missing: [1] };
    const early = [call('barrier', { state: 'scheduled', atMs: 0 })];
    const late = [call('barrier', { state: 'scheduled', atMs: 2500 })];
    expect(
      blame([
        dumpOf(0, world, early, { failure }),
        dumpOf(1, world, late),
        dumpOf(2, world, early),
      ]),
    ).toEqual([
      'Rank 1 is missing first, at call #0 of group world:',
      '  ranks 0, 2  barrier()',
      '  rank 1      came 1.5 s after the others had given up: barrier()',
    ]);
  });

  it('knows of calls that have left a ring that they were made', () => {
    const many = Array.from({ length: 50 }, () => call('barrier'));
    const fewer = many.slice(0, 40);
    const verdict = verdictOf([
      dumpOf(0, world, many, { kept: 5 }),
      dumpOf(1, world, fewer, { kept: 5 }),
      dumpOf(2, world, many, { kept: 50 }),
    ]);
    expect(verdict).toMatchObject({ kind: 'missing', culprits: [1], sequence: 40 });
    expect(verdict).toMatchObject({ calls: [{ rank: 2, sequence: 40 }] });
    const lines = blame([
      dumpOf(0, world, many, { kept: 5 }),
      dumpOf(1, world, fewer, { kept: 5 }),
    ]);
    expect(lines[1]).toContain("the others' call is no longer in their records");
  });

  it('follows a rank that waits in another group to the one it waits for', () => {
    const groups = { world: [0, 1, 2], 'world/0:0': [0, 1] };
    const scheduled = { state: 'scheduled' } as const;
    const dumps = [
      // Rank 0 waits for rank 1 in the subgroup. Rank 2 has waited for both in the world for longer.
      dumpOf(0, groups, [
        call('barrier', { atMs: 1 }),
        call('allReduce', { ...scheduled, group: 'world/0:0', atMs: 10 }),
      ]),
      dumpOf(1, groups, [call('barrier', { atMs: 1 })]),
      dumpOf(2, world, [call('barrier', { atMs: 1 }), call('barrier', { ...scheduled, atMs: 5 })]),
    ];
    expect(blame(dumps)[0]).toBe('Rank 1 is missing first, at call #0 of group world/0:0:');
  });

  it('names the rank that does not receive what is sent', () => {
    const sent = [message('send', 1, { tag: 7 }), message('send', 1, { tag: 7, ...waiting })];
    expect(
      blame([dumpOf(0, world, sent), dumpOf(1, world, [message('recv', 0, { tag: 7 })])]),
    ).toEqual([
      'Rank 1 is missing first, at message #1 from rank 0 to rank 1 with tag 7 of group world:',
      '  rank 0  send(to 1, tag 7, f32 [4]) at /home/train.ts:20 (step)',
      '  rank 1  its last call was #0, recv(from 0, tag 7, f32 [4]), completed',
    ]);
  });

  it('names both ends of a message whose sizes differ', () => {
    const dumps = [
      dumpOf(0, world, [message('send', 1, { state: 'scheduled', elements: 2 })]),
      dumpOf(1, world, [message('recv', 0, { state: 'scheduled', elements: 3 })]),
    ];
    expect(verdictOf(dumps)).toMatchObject({
      kind: 'differs',
      culprits: [0, 1],
      calls: [{ call: 'send(to 1, tag 0, f32 [2])' }, { call: 'recv(from 0, tag 0, f32 [3])' }],
    });
  });

  it('prints names of a dump without control characters, in one line', () => {
    const hostile = 'a\u001B[2Jb\nc';
    const [line] = blame([
      dumpOf(0, { [hostile]: [0, 1] }, [call('barrier', { state: 'scheduled' })]),
    ]);
    expect(line).toBe('Rank 1 is missing first, at call #0 of group a\uFFFD[2Jb c:');
  });

  it('shortens long lists of ranks', () => {
    const ranks = Array.from({ length: 100 }, (_, rank) => rank);
    const [line] = blame([dumpOf(0, { world: ranks }, [call('barrier', { state: 'scheduled' })])]);
    expect(line).toBe(
      'Ranks 1, 2, 3, 4, 5, 6, 7, 8 and 91 others are missing first, at call #0 of group world:',
    );
  });

  it('finds the one rank that leaves a common program, whatever the program and the place', () => {
    const operation = fc.constantFrom('allReduce', 'broadcast', 'allGather', 'barrier');
    fc.assert(
      fc.property(
        fc.array(operation, { minLength: 1, maxLength: 20 }),
        fc.nat(),
        fc.nat({ max: 3 }),
        fc.constantFrom('other', 'end'),
        fc.integer({ min: 2, max: 20 }),
        (program, seed, odd, how, kept) => {
          const at = seed % program.length;
          const done = program.slice(0, at).map((name) => call(name));
          const here = call(program[at] ?? '', { state: 'scheduled' });
          const other = how === 'other' ? [call('reduceScatter', { state: 'scheduled' })] : [];
          const dumps = [0, 1, 2, 3].map((rank) =>
            dumpOf(rank, { world: [0, 1, 2, 3] }, [...done, ...(rank === odd ? other : [here])], {
              kept,
            }),
          );
          expect(verdictOf(dumps)).toMatchObject({
            kind: how === 'other' ? 'differs' : 'missing',
            sequence: at,
            culprits: [odd],
          });
        },
      ),
      { numRuns: 100 },
    );
  });
});
