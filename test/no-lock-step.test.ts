import { describe, expect, it } from 'vitest';
import { attendanceOf, updateTimes } from '../bench/no-lock-step/attendance.ts';

const [ranks, steps, every] = [8, 208, 13];
const contestant = { name: 'ranks come and go', diloco: { every }, away: 0.25 };

describe('ranks of the benchmark that come and go', () => {
  const attendance = attendanceOf(contestant, steps, ranks, 1) ?? [];
  const all = Array.from({ length: ranks }, (_, rank) => rank);

  it('are all there in the first and in the last round, and some of them are away in between', () => {
    expect(attendance.at(0)).toEqual(all);
    expect(attendance.at(-1)).toEqual(all);
    const counts = attendance.map(({ length }) => length);
    expect(Math.min(...counts)).toBeGreaterThan(0);
    expect(new Set(counts).size).toBeGreaterThan(2);
  });

  it('make as many updates as if they had never been away, or a round less', () => {
    const updates = every * attendance.flat().length;
    expect(updates).toBeLessThanOrEqual(steps * ranks);
    expect(updates).toBeGreaterThan(steps * ranks - every * ranks);
  });

  it('are drawn by the seed', () => {
    expect(attendanceOf(contestant, steps, ranks, 1)).toEqual(attendance);
    expect(attendanceOf(contestant, steps, ranks, 2)).not.toEqual(attendance);
  });

  it('have the same learning rate in the same update of a round', () => {
    const times = all.map((rank) => updateTimes(attendance, { rank, size: ranks }, every));
    const together = all.filter((rank) => attendance[1]?.includes(rank));
    for (const rank of all) expect(times[rank]?.slice(0, every)).toEqual(all13());
    for (const rank of together) expect(times[rank]?.[every]).toBe(every);
    const updates = every * attendance.flat().length;
    expect(times.flat().length).toBe(updates);
    expect(Math.max(...times.flat())).toBe(updates / ranks - 1);
  });

  function all13(): readonly number[] {
    return Array.from({ length: every }, (_, update) => update);
  }
});
