import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StopFlag } from '../src/launcher/ranks/stop-flag.ts';

describe('the stop flag', () => {
  it('lets nobody stop before a stop is requested', () => {
    const stop = new StopFlag();
    expect(stop.requested).toBe(false);
    for (let step = 1; step <= 100; step += 1) expect(stop.stopsAfter(step)).toBe(false);
  });

  it('stops after the next step that nobody has asked about', () => {
    const stop = new StopFlag();
    stop.stopsAfter(6);
    stop.stopsAfter(7);
    stop.request();
    expect(stop.requested).toBe(true);
    expect([6, 7, 8, 9].map((step) => stop.stopsAfter(step))).toEqual([false, false, true, true]);
  });

  it('stops a run at its first step, also a resumed one', () => {
    const stop = new StopFlag();
    stop.request();
    expect(stop.stopsAfter(1000)).toBe(true);
  });

  it('is the same word for everyone who has its memory', () => {
    const stop = new StopFlag();
    const elsewhere = new StopFlag(stop.memory);
    elsewhere.stopsAfter(3);
    stop.request();
    expect(elsewhere.stopsAfter(3)).toBe(false);
    expect(elsewhere.stopsAfter(4)).toBe(true);
  });

  it('stops all ranks after the same step, whatever their pace and whenever the request comes', () => {
    const schedule = fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(schedule, fc.nat({ max: 60 }), (turns, requestAt) => {
        const stop = new StopFlag();
        const steps = [0, 0, 0, 0];
        const stopped = new Map<number, number>();
        const advance = (rank: number): void => {
          if (stopped.has(rank)) return;
          const step = (steps[rank] ?? 0) + 1;
          steps[rank] = step;
          if (stop.stopsAfter(step)) stopped.set(rank, step);
        };
        for (const [turn, rank] of turns.entries()) {
          if (turn === requestAt) stop.request();
          advance(rank);
        }
        stop.request();
        const furthest = Math.max(...steps);
        for (let round = 0; round <= furthest; round += 1)
          steps.forEach((_, rank) => advance(rank));
        expect(stopped.size).toBe(4);
        expect(new Set(stopped.values()).size).toBe(1);
      }),
    );
  });
});
