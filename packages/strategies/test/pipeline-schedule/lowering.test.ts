import {
  checkLoweredSchedule,
  lowerSchedule,
  pipelineSchedule,
  scheduleNames,
} from '@shardwise/strategies';
import { dryRun } from '../../src/pipeline-schedule/dry-run.ts';
import { describe, expect, it } from 'vitest';
import { digest, golden, linesOf, scheduleOfKey } from './golden-schedules.ts';

describe.each(Object.entries(golden.lowered))('what ranks execute of %s', (key, recorded) => {
  const schedule = scheduleOfKey(key);

  it('has the messages that PyTorch has, in the same places', () => {
    expect(digest(linesOf(lowerSchedule(schedule)))).toBe(recorded.messages);
  });

  it('needs as many steps as PyTorch counts', () => {
    const { steps, blocked } = dryRun(lowerSchedule(schedule));
    expect(blocked).toEqual([]);
    if (recorded.steps !== null) expect(steps).toBe(recorded.steps);
  });

  it('receives late where PyTorch does', () => {
    const late = lowerSchedule(schedule, { lateReceives: true });
    expect(digest(linesOf(late))).toBe(recorded.late);
  });

  it('gathers and reduces where PyTorch does', () => {
    const all = lowerSchedule(schedule, { activeStages: 3, reduceGradients: true });
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
