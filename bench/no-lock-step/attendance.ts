import { Generator } from 'shardwise';
import type { Contestant } from './job.ts';

/** The ranks that take part in each round, in ascending order. */
export type Attendance = readonly (readonly number[])[];

/**
 * Draws who takes part in each round. All are there in the first and in the last round, and someone in each. Together they
 * make as many updates as all ranks in so many steps, or fewer if another round would be more. Null: nobody is ever away.
 */
export function attendanceOf(
  { diloco, away }: Contestant,
  steps: number,
  ranks: number,
  seed: number,
): Attendance | null {
  if (diloco === null || away === undefined) return null;
  const generator = new Generator(seed);
  const all = Array.from({ length: ranks }, (_, rank) => rank);
  const between: (readonly number[])[] = [];
  let left = Math.floor((steps * ranks) / diloco.every) - 2 * ranks;
  for (;;) {
    const present = all.filter(() => generator.random() / 2 ** 32 >= away);
    if (present.length === 0) continue;
    left -= present.length;
    if (left < 0) return [all, ...between, all];
    between.push(present);
  }
}

/** The place of each update of a rank in the training: the updates of all ranks before it, divided by the ranks. */
export function updateTimes(
  attendance: Attendance,
  { rank, size }: { readonly rank: number; readonly size: number },
  every: number,
): readonly number[] {
  let before = 0;
  return attendance.flatMap((present) => {
    const [first, together] = [before, present.length];
    before += every * together;
    if (!present.includes(rank)) return [];
    return Array.from({ length: every }, (_, update) => (first + update * together) / size);
  });
}
