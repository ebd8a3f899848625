import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from './support/run-ranks.ts';
import { countOf, type Observations, observations, rowOf, steps } from './ranks/row-exchange.ts';

describe.each([2, 3])('rows that %i ranks exchange, another number in each step', (size) => {
  const ranks = [...Array.from({ length: size }).keys()];
  const range = (count: number) => [...Array.from({ length: count }).keys()];
  let found: readonly Observations[] = [];

  beforeAll(async () => {
    const url = new URL('./ranks/row-exchange.ts', import.meta.url);
    const results = await runRanks(size, url, { world: createThreadsWorld({ size }) });
    found = z.array(observations).length(size).parse(results);
  });

  /** Returns the index of the first row that a rank sends to another rank. */
  const startOf = (step: number, from: number, to: number) =>
    range(to).reduce((sum, before) => sum + countOf(step, from, before), 0);

  it('arrive in the order of the ranks', () => {
    found.forEach(({ received }, rank) =>
      received.forEach((rows, step) => {
        const expected = ranks.flatMap((from) =>
          range(countOf(step, from, rank)).map((row) =>
            rowOf(from, startOf(step, from, rank) + row),
          ),
        );
        expect(rows).toEqual(expected);
      }),
    );
  });

  it('come back to their places, with gradients of those who had them', () => {
    found.forEach(({ back, gradients }, rank) => {
      expect(back).toHaveLength(steps);
      back.forEach((rows, step) => {
        const weights = ranks.flatMap((to) => range(countOf(step, rank, to)).map(() => to + 1));
        expect(gradients[step]).toEqual(weights);
        expect(rows).toEqual(weights.map((weight, row) => weight * rowOf(rank, row)));
      });
    });
  });

  it('are gathered where ranks have different numbers of them; the gradient sums over copies', () => {
    const weights = ranks.reduce((sum, rank) => sum + rank + 1, 0);
    found.forEach(({ gathered, gatheredGradient }, rank) => {
      expect(gathered).toEqual(
        ranks.flatMap((from) => range(from + 2).map((row) => rowOf(from, row))),
      );
      expect(gatheredGradient).toEqual(range(rank + 2).map(() => weights));
    });
  });

  it('need no new plans after a while', () => {
    for (const { plansOfLastSteps } of found) expect(plansOfLastSteps).toBe(0);
  });

  it('are refused where their number is not what was agreed on', () => {
    for (const { errors } of found) {
      expect(errors).toHaveLength(3);
      expect(errors[0]).toMatch(/to send 1 rows to the ranks of 'dp': \d ranks/);
      expect(errors[1]).toMatch(/to send 0\.5, 0\.5/);
      expect(errors[2]).toMatch(/agreed on \d rows/);
    }
  });
});
