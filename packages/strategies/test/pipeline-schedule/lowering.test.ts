import { lowerSchedule } from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { digest, golden, linesOf, scheduleOfKey } from './golden-schedules.ts';

describe.each(Object.entries(golden.lowered))('what ranks execute of %s', (key, recorded) => {
  const schedule = scheduleOfKey(key);

  it('has the messages that PyTorch has, in the same places', () => {
    expect(digest(linesOf(lowerSchedule(schedule)))).toBe(recorded.messages);
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
