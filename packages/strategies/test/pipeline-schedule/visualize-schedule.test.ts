import {
  pipelineSchedule,
  simulateSchedule,
  type TimedAction,
  visualizeSchedule,
} from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';

describe('a drawing of a schedule', () => {
  it('a drawing of a schedule has a line for each rank, with waiting as dots', () => {
    expect(visualizeSchedule(pipelineSchedule('1f1b', { ranks: 2, microbatches: 3 }))).toBe(
      [
        '1f1b: 2 stages on 2 ranks, 3 microbatches',
        'simulated: 12 ms, bubble 25 %',
        'rank 0 |F0|F1|.....|B0   |F2|B1   |..|B2   |  live 2',
        'rank 1 ...|F0|B0   |F1|B1   |F2|B2   |......  live 1',
        `       0${'12 ms'.padStart(36)}`,
      ].join('\n'),
    );
  });

  it('a drawing of a schedule names stages where a rank has several, and both halves of a pair', () => {
    const text = visualizeSchedule(pipelineSchedule('dualPipeV', { ranks: 2, microbatches: 4 }));
    expect(text).toContain('rank 0 |0F0|0F1|0F2|3F0|3I0|3W0|3F1|0F3+3B1    |');
  });

  it('a drawing of a schedule is no wider than asked, with letters where labels have no room', () => {
    const schedule = pipelineSchedule('1f1b', { ranks: 4, microbatches: 16 });
    const lines = visualizeSchedule(schedule, { columns: 57 }).split('\n').slice(2, 6);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(7 + 58 + 8);
    expect(lines[3]).toBe(`rank 3 ...${'F|B'.repeat(16)}|......  live 1`);
  });

  it('a drawing of a schedule shows what was measured below it, on the same clock', () => {
    const schedule = pipelineSchedule('gpipe', { ranks: 2, microbatches: 1 });
    const forward = (stage: number) => ({ kind: 'forward' as const, stage, microbatch: 0 });
    const backward = (stage: number) => ({ kind: 'backward' as const, stage, microbatch: 0 });
    const measured: TimedAction[][] = [
      [
        { action: forward(0), startMs: 1000, endMs: 1001 },
        { action: backward(0), startMs: 1006, endMs: 1008 },
      ],
      [
        { action: forward(1), startMs: 1002, endMs: 1003 },
        { action: backward(1), startMs: 1003, endMs: 1005 },
      ],
    ];
    expect(visualizeSchedule(schedule, { measured }).split('\n').slice(1)).toEqual([
      'simulated: 6 ms, bubble 50 %',
      'rank 0 |F0|........|B0   |......  live 1',
      'rank 1 ...|F0|B0   |............  live 1',
      'measured: 8 ms, bubble 62.5 %',
      'rank 0 |F0|..............|B0   |',
      'rank 1 ......|F0|B0   |.........',
      `       0${'8 ms'.padStart(24)}`,
    ]);
  });

  it.each([
    [[[]], 'measured times of 1 ranks'],
    [[[], [{ startMs: 2, endMs: 1 }]], 'rank 1, measured action 0 from 2 to 1 ms'],
    [[[{ startMs: 0, endMs: Number.NaN }], []], 'rank 0, measured action 0 from 0 to NaN ms'],
    [
      [[], [{ startMs: 0, endMs: 1 }]],
      'rank 1, measured action 0 of stage 0, which this rank does not have',
    ],
  ])('refuses measured times that cannot be: %j', (times, says) => {
    const action = { kind: 'forward' as const, stage: 0, microbatch: 0 };
    const measured = times.map((own) => own.map((time) => ({ action, ...time })));
    const schedule = pipelineSchedule('gpipe', { ranks: 2, microbatches: 1 });
    expect(() => visualizeSchedule(schedule, { measured })).toThrow(says);
  });

  it('as an image has every action with its time, and a pattern beside the colour', () => {
    const schedule = pipelineSchedule('zb1p', { ranks: 2, microbatches: 4 });
    const svg = visualizeSchedule(schedule, { format: 'svg' });
    const cells = [
      ...svg.matchAll(/<rect class="cell (\w+)-0" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"/g),
    ];
    const inPlot = cells.filter(([, , , width]) => Number(width) !== 22);
    expect(inPlot).toHaveLength(schedule.actions.flat().length);
    const end = Math.max(...inPlot.map(([, , x, width]) => Number(x) + Number(width)));
    const { makespanMs } = simulateSchedule(schedule);
    const first = inPlot[0];
    // The plot is `makespanMs` times as wide as the first forward.
    expect((end - Number(first?.[2])) / Number(first?.[3])).toBeCloseTo(makespanMs, 1);
    expect(svg).toContain('<title>rank 1: weight gradient W3, 12 to 13 ms</title>');
    expect(svg.match(/url\(#stripes\)/g)).toHaveLength(2 * 4 + 1);
    expect(svg.match(/url\(#dots\)/g)).toHaveLength(2 * 4 + 1);
    expect(svg).toContain('@media (prefers-color-scheme: dark)');
  });

  it('a drawing of a schedule takes as many actions as a long step has', () => {
    const schedule = pipelineSchedule('gpipe', { ranks: 2, microbatches: 40_000 });
    const { ranks } = simulateSchedule(schedule);
    const measured = ranks.map(({ actions }) => actions);
    expect(visualizeSchedule(schedule, { measured })).toContain('measured: 120003 ms');
  });

  it('as an image takes any name', () => {
    const schedule = { ...pipelineSchedule('gpipe', { ranks: 1, microbatches: 1 }), name: '<b>&' };
    expect(visualizeSchedule(schedule, { format: 'svg' })).toContain(
      '<title>&lt;b&gt;&amp;: 1 stages',
    );
  });
});
