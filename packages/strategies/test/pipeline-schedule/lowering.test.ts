import {
  activationSlots,
  checkLoweredSchedule,
  checkSchedule,
  lowerSchedule,
  pipelineSchedule,
  readLoweredSchedule,
  readSchedule,
  scheduleNames,
  simulateSchedule,
} from '@shardwise/strategies';
import { mergeBackwards } from '../../src/pipeline-schedule/lowering/lower-schedule.ts';
import { dryRun } from '../../src/pipeline-schedule/check/dry-run.ts';
import { describe, expect, it } from 'vitest';
import { generator } from './expect-random-schedules-to-run.ts';
import { randomSchedule } from './random-schedule.ts';
import { digest, golden, linesOf, scheduleOfKey } from './golden-schedules.ts';

describe.each(Object.entries(golden.lowered))('what ranks execute of %s', (key, recorded) => {
  const schedule = scheduleOfKey(key);

  it('has the messages that PyTorch has, in the same places', () => {
    expect(digest(linesOf(lowerSchedule(schedule, { mergeBackwards: 'all' })))).toBe(
      recorded.messages,
    );
  });

  it('gives activations the slots that PyTorch gives them', () => {
    const lines = activationSlots(schedule).map(({ activations }) =>
      activations.map(({ slot }) => slot).join(' '),
    );
    expect(digest(lines)).toBe(recorded.slots);
  });

  it('needs as many steps as PyTorch counts', () => {
    const { steps, blocked } = dryRun(lowerSchedule(schedule, { mergeBackwards: 'all' }));
    expect(blocked).toEqual([]);
    if (recorded.steps !== null) expect(steps).toBe(recorded.steps);
  });

  it('receives late where PyTorch does', () => {
    const late = lowerSchedule(schedule, { lateReceives: true, mergeBackwards: 'all' });
    expect(digest(linesOf(late))).toBe(recorded.late);
  });

  it('gathers and reduces where PyTorch does', () => {
    const all = lowerSchedule(schedule, {
      activeStages: 3,
      reduceGradients: true,
      mergeBackwards: 'all',
    });
    expect(digest(linesOf(all))).toBe(recorded.all);
  });
});

describe.each(scheduleNames)('messages of %s', (name) => {
  it('cannot block ranks, even if a send waits until the other rank receives', () => {
    for (const ranks of [2, 3, 4]) {
      for (const microbatches of [4, 8, 12]) {
        if (name === 'dualPipeV' && microbatches < 2 * ranks) continue;
        const lowered = lowerSchedule(pipelineSchedule(name, { ranks, microbatches }));
        checkLoweredSchedule(lowered);
        expect(dryRun(lowered, true).blocked).toEqual([]);
      }
    }
  });

  it('that are received late cannot block ranks whose sends do not wait', () => {
    const schedule = pipelineSchedule(name, { ranks: 3, microbatches: 6 });
    const late = lowerSchedule(schedule, { lateReceives: true });
    checkLoweredSchedule(late);
    expect(dryRun(late).blocked).toEqual([]);
  });
});

describe('whole backwards', () => {
  const schedule = readSchedule('0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1');

  it.each([
    ['unawaited', '1I0 1SEND_B0 1W0', '0B0'],
    ['all', '1B0 1SEND_B0', '0B0'],
    ['none', '1I0 1SEND_B0 1W0', '0I0 0W0'],
  ] as const)(
    'are made where no other rank waits for the gradient, if not said otherwise: %s',
    (mergeBackwards, last, first) => {
      const lines = linesOf(lowerSchedule(schedule, { mergeBackwards }));
      expect(lines[1]).toContain(last);
      expect(lines[0]).toContain(first);
      if (mergeBackwards === 'unawaited') expect(linesOf(lowerSchedule(schedule))).toEqual(lines);
    },
  );

  it('of which other ranks wait would make schedules slower: V-Min takes a third longer', () => {
    const vMin = pipelineSchedule('vMin', { ranks: 8, microbatches: 32 });
    const merged = vMin.actions.map((own) => mergeBackwards(own, () => true));
    const unawaited = vMin.actions.map((own) => mergeBackwards(own, (stage) => stage === 0));
    const makespans = [vMin.actions, unawaited, merged].map(
      (actions) => simulateSchedule({ ...vMin, actions }).makespanMs,
    );
    expect(makespans).toEqual([219, 219, 292]);
  });
});

describe('messages of hand-written schedules', () => {
  it.each([
    [
      '0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1',
      '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1',
      11,
    ],
    [
      '0F0,0F1,,3F0,3I0,3F1,3I1,0I0,3W0,0I1,3W1,0W0,0W1\n,1F0,2F0,1F1,2F1,2I0,1I0,2I1,1I1,2W0,2W1,1W0,1W1',
      '0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0,3I0,3SEND_B0,3RECV_F1,3F1,3I1,3SEND_B1,0RECV_B0,0I0,3W0,0RECV_B1,0I1,3W1,0W0,0W1\n1RECV_F0,1RECV_F1,1F0,2F0,2SEND_F0,1F1,2RECV_B0,2F1,2SEND_F1,2I0,2RECV_B1,1I0,1SEND_B0,2I1,1I1,1SEND_B1,2W0,2W1,1W0,1W1',
      24,
    ],
  ])(
    "need a step less than PyTorch's, which counts empty cells as turns: %j",
    (text, theirs, steps) => {
      const lowered = lowerSchedule(readSchedule(text), { mergeBackwards: 'none' });
      const read = readLoweredSchedule(theirs);
      const sorted = (actions: readonly string[]) =>
        actions.map((line) => line.split(' ').toSorted());
      expect(sorted(linesOf(lowered))).toEqual(sorted(linesOf(read)));
      expect(dryRun(read).steps).toBe(steps);
      expect(dryRun(lowered).steps).toBe(steps - 1);
    },
  );
});

describe('random schedules with random edges', () => {
  it('random schedules with random edges can be run when they are lowered, even if sends wait, and are read as they are written', () => {
    const random = generator(11);
    for (let turn = 0; turn < 200; turn++) {
      const { schedule, edges } = randomSchedule(random);
      checkSchedule(schedule, edges);
      const lowered = lowerSchedule(schedule, {
        edges,
        reduceGradients: random() < 0.5,
        ...(random() < 0.5 ? { activeStages: 2 } : {}),
      });
      checkLoweredSchedule(lowered);
      expect(dryRun(lowered, true).blocked).toEqual([]);
      expect(dryRun(lowerSchedule(schedule, { edges, lateReceives: true })).blocked).toEqual([]);
    }
  });
});
