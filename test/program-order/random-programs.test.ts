import { expect, test } from 'vitest';
import { differencesOf, errorsOf, isTold, outcomesInThread } from './random-programs.ts';

const timeoutMs = 300_000;

test(
  'programs of 2 ranks whose ranks read different values have the values of those that read all',
  async () => {
    const [ranks, count] = [2, 15];
    const outcomes = await outcomesInThread(ranks, { from: 1, count });
    expect(differencesOf(outcomes)).toEqual([]);
    const read = outcomes.reduce((sum, each) => sum + each.read, 0);
    const refused = outcomes.reduce((sum, each) => sum + each.refused, 0);
    expect(read).toBeGreaterThan(10 * count * ranks);
    // What cannot be read any more, because a step has updated what it was made of, is refused.
    expect(refused / read).toBeLessThan(0.1);
  },
  timeoutMs,
);

test(
  'programs of which one rank has a call or a pass less, more, elsewhere or of another model, or another learning rate, are errors',
  async () => {
    const seeds = Array.from({ length: 25 }, (_, index) => index + 1);
    const found = await errorsOf(2, seeds, 0);
    expect(found.length).toBeGreaterThan(10);
    expect(found.filter(({ errors }) => !isTold(errors))).toEqual([]);
  },
  timeoutMs,
);
