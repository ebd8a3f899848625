import {
  type Action,
  checkSchedule,
  formatAction,
  lowerSchedule,
  pipelineSchedule,
  type Schedule,
  type ScheduledAction,
} from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { linesOf } from './golden-schedules.ts';

const schedule = pipelineSchedule('1f1b', { ranks: 2, microbatches: 3 });

/** Returns the schedule with changed actions on one rank. */
function edited(
  rank: number,
  edit: (actions: readonly ScheduledAction[]) => readonly ScheduledAction[],
  of: Schedule = schedule,
): Schedule {
  return {
    ...of,
    name: 'edited',
    actions: of.actions.map((own, index) => (index === rank ? edit(own) : own)),
  };
}

const swapped =
  (a: number, b: number) =>
  (actions: readonly ScheduledAction[]): ScheduledAction[] =>
    actions.flatMap((action, index) => {
      const other = index === a ? actions[b] : index === b ? actions[a] : action;
      return other === undefined ? [] : [other];
    });

const mistakes: Readonly<Record<string, readonly [Schedule, string]>> = {
  'a rank that is not there': [
    { ...schedule, actions: schedule.actions.slice(0, 1) },
    'actions of 1 ranks. Give the actions of each of the 2 ranks',
  ],
  'a rank without a stage': [{ ...schedule, rankOfStage: [0, 0] }, 'rank 1 without a stage'],
  'a stage on a rank that there is not': [
    { ...schedule, rankOfStage: [0, 2] },
    'stage 1 on rank 2. Put it on a rank from 0 to 1',
  ],
  'a stage on two ranks': [
    edited(0, (own) => [...own, { kind: 'forward', stage: 1, microbatch: 0 }]),
    'rank 0 at action 6, 1F0: stage 1 is on rank 1',
  ],
  'a microbatch that there is not': [
    edited(0, (own) => [...own, { kind: 'forward', stage: 0, microbatch: 3 }]),
    'rank 0 at action 6, 0F3: no microbatch 3. Use microbatches 0 to 2',
  ],
  'a forward too many': [
    edited(0, (own) => [...own, { kind: 'forward', stage: 0, microbatch: 2 }]),
    'rank 0 at action 6, 0F2: it was done before',
  ],
  'a missing forward': [edited(1, (own) => own.slice(0, -2)), 'no 1F2 on rank 1'],
  'a missing backward': [edited(1, (own) => own.slice(0, -1)), 'no 1B2 on rank 1'],
  'a missing weight gradient': [
    edited(1, (own) =>
      own.map((action, index) =>
        index === 5 ? { kind: 'inputGradient', stage: 1, microbatch: 2 } : action,
      ),
    ),
    'no 1W2 on rank 1',
  ],
  'a backward before its forward': [
    edited(1, swapped(0, 1)),
    'rank 1 at action 0, 1B0: it comes before 1F0, for which it waits. Put 1F0 first',
  ],
  'a weight gradient before its input gradient': [
    edited(1, (own) => [...own.slice(0, 5), { kind: 'weightGradient', stage: 1, microbatch: 2 }]),
    'rank 1 at action 5, 1W2: it comes before 1I2, for which it waits',
  ],
  'a weight gradient after a whole backward': [
    edited(1, (own) => [...own, { kind: 'weightGradient', stage: 1, microbatch: 2 }]),
    'rank 1 at action 6, 1W2: it was done before, alone or as a part of a whole backward',
  ],
  'a pair of two forwards': [
    edited(0, (own) => [
      {
        kind: 'overlap',
        actions: [
          { kind: 'forward', stage: 0, microbatch: 0 },
          { kind: 'forward', stage: 0, microbatch: 1 },
        ],
      },
      ...own.slice(2),
    ]),
    'rank 0 at action 0, (0F0;0F1)OVERLAP_F_B: a pair that is no forward beside a backward',
  ],
  'an action that no schedule has': [
    edited(0, (own) => [...own, { kind: 'unshard', stage: 0 } as never]),
    'rank 0 at action 6, 0UNSHARD: no action of a schedule',
  ],
  'a backward where there are forwards only': [
    { ...schedule, forwardOnly: true },
    'rank 0 at action 2, 0B0: a backward where there are forwards only',
  ],
  // Rank 1 waits for the second microbatch first. Rank 0 sends it only after the backward of the first.
  'ranks that wait for each other': [
    edited(
      0,
      () => edited(0, swapped(1, 2)).actions[0] ?? [],
      edited(1, (own) => [2, 3, 0, 1, 4, 5].flatMap((index) => own[index] ?? [])),
    ),
    'no rank can go on: rank 0 at action 1, 0B0, waits for 1B0 of rank 1; rank 1 at action 0, 1F1, waits for 0F1 of rank 0. Move the action that others wait for',
  ],
};

describe('a schedule that ranks cannot run', () => {
  it.each(Object.entries(mistakes))('is an error that names the place: %s', (_, [wrong, says]) => {
    expect(() => checkSchedule(wrong)).toThrow(says);
  });

  it('a schedule that ranks cannot run is refused before it is lowered', () => {
    expect(() => lowerSchedule(edited(1, (own) => own.slice(0, -1)))).toThrow('no 1B2 on rank 1');
  });

  it('a schedule that ranks cannot run has the place in the fields of its error', () => {
    const wrong = edited(1, (own) => own.slice(0, -1));
    expect(() => checkSchedule(wrong)).toThrow(
      expect.objectContaining({
        code: 'CONFIG',
        fields: expect.objectContaining({ schedule: 'edited', rank: 1, action: '1B2' }),
      }),
    );
  });
});

describe('edges between stages', () => {
  it('lead to a later stage, once', () => {
    const to = (from: number, stage: number) => [{ from, to: stage, gradient: true }];
    expect(() => checkSchedule(schedule, to(1, 0))).toThrow('an edge 1 → 0. Let edges go from');
    expect(() => checkSchedule(schedule, to(0, 2))).toThrow('an edge 0 → 2');
    expect(() => checkSchedule(schedule, [...to(0, 1), ...to(0, 1)])).toThrow('two edges 0 → 1');
  });

  it.each([
    [
      { from: 0, to: 1 },
      'an edge between stages: no option gradient. Give gradient: true or false',
    ],
    [
      { from: 0, to: 1, gradient: true, bytes: Number.NaN },
      'bytes: NaN: a value that is not a finite number from 0',
    ],
    [{ from: 0.5, to: 1, gradient: true }, 'from: 0.5: a value that is not a whole number from 0'],
  ])('say whether a gradient comes back, in numbers that can be: %j', (edge, says) => {
    expect(() => lowerSchedule(schedule, { edges: [edge as never] })).toThrow(says);
  });

  it('edges between stages may pass over stages: the message goes straight to where it is needed, its gradient straight back', () => {
    const edges = [
      { from: 0, to: 1, gradient: true },
      { from: 1, to: 2, gradient: true },
      { from: 0, to: 2, gradient: true },
    ];
    const lowered = lowerSchedule(pipelineSchedule('gpipe', { ranks: 3, microbatches: 1 }), {
      edges,
    });
    expect(linesOf(lowered)).toEqual([
      '0F0 0SEND_F0 0SEND_F0>2 0RECV_B0<2 0RECV_B0 0B0',
      '1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0',
      '2RECV_F0<0 2RECV_F0 2F0 2B0 2SEND_B0 2SEND_B0>0',
    ]);
  });

  it('without gradients have no message back, and no backward waits for one', () => {
    const edges = [{ from: 0, to: 1, gradient: false }];
    const lowered = lowerSchedule(pipelineSchedule('gpipe', { ranks: 2, microbatches: 1 }), {
      edges,
    });
    expect(linesOf(lowered)).toEqual(['0F0 0SEND_F0 0B0', '1RECV_F0 1F0 1B0']);
  });

  it('between stages of one rank have no messages', () => {
    const kinds = (action: Action) => formatAction(action).replaceAll(/\d/g, '');
    const [first] = lowerSchedule(
      pipelineSchedule('loopedBfs', { ranks: 1, microbatches: 2 }),
    ).actions;
    expect(new Set(first?.map(kinds))).toEqual(new Set(['F', 'B']));
  });
});

describe('gathering', () => {
  it('gathering takes a window of at least the stages of one action', () => {
    const pairs = pipelineSchedule('dualPipeV', { ranks: 2, microbatches: 4 });
    expect(() => lowerSchedule(pairs, { activeStages: 1 })).toThrow(
      'uses 2 stages, and 1 may be active',
    );
  });

  it('brings a stage back only when the window is smaller than the stages of a rank', () => {
    const gathered = (activeStages: number): number =>
      linesOf(
        lowerSchedule(
          pipelineSchedule('interleaved1f1b', { ranks: 4, stagesPerRank: 4, microbatches: 16 }),
          { activeStages },
        ),
      )
        .join(' ')
        .split(' ')
        .filter((text) => text === '15UNSHARD').length;
    expect([3, 4].map(gathered)).toEqual([4, 1]);
  });
});
