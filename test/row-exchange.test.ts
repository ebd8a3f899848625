import { allGatherRows, exchangeRows, fromData, statistics } from '@shardwise/core';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

const steps = 12;

/**
 * Returns the number of rows that one rank sends to another in a step. It may be 0, and in step 1 all rows go to rank
 * 0.
 */
function countOf(step: number, from: number, to: number): number {
  if (step === 1) return to === 0 ? 5 : 0;
  return (step * 5 + from * 3 + to * 7) % 6;
}

/** Returns the value of a row, which says where the row comes from. It is repeated three times. */
function rowOf(from: number, row: number): number {
  return 100 * from + row;
}

interface Observations {
  received: number[][];
  back: number[][];
  gradients: number[][];
  gathered: number[];
  gatheredGradient: number[];
  plansOfLastSteps: number;
  errors: string[];
}

async function observe({ rank, size }: RankInThread): Promise<Observations> {
  const ranks = [...Array.from({ length: size }).keys()];
  const rowsOf = (count: number) =>
    fromData(
      Float32Array.from({ length: 3 * count }, (_, i) => rowOf(rank, Math.floor(i / 3))),
      [count, 3],
      'f32',
    ).requiresGrad_();
  const found: Observations = {
    received: [],
    back: [],
    gradients: [],
    gathered: [],
    gatheredGradient: [],
    plansOfLastSteps: 0,
    errors: [],
  };
  const first = async (data: Promise<ArrayLike<number | bigint>>): Promise<number[]> =>
    Array.from(await data, Number).filter((_, i) => i % 3 === 0);
  let plans = 0;
  for (let step = 0; step < 2 * steps; step++) {
    if (step === steps) plans = statistics().plansMade;
    const counts = ranks.map((to) => countOf(step % steps, rank, to));
    const exchange = await exchangeRows('dp', counts);
    const x = rowsOf(counts.reduce((sum, count) => sum + count, 0));
    const y = exchange.send(x);
    // Each rank multiplies the received rows by its number plus one.
    const back = exchange.sendBack(y.mul(rank + 1));
    y.mul(rank + 1)
      .sum()
      .backward();
    const received = await first(y.data());
    const returned = await first(back.data());
    const gradient = await first(x.grad?.data() ?? Promise.resolve([]));
    // In the second round, the sizes are known already.
    if (step >= steps) continue;
    found.received.push(received);
    found.back.push(returned);
    found.gradients.push(gradient);
  }
  found.plansOfLastSteps = statistics().plansMade - plans;
  const own = rowsOf(rank + 2);
  const all = await allGatherRows(own, 'dp');
  all
    .mul(rank + 1)
    .sum()
    .backward();
  found.gathered = await first(all.data());
  found.gatheredGradient = await first(own.grad?.data() ?? Promise.resolve([]));
  found.errors = await errorsOf(size);
  return found;
}

async function errorsOf(size: number): Promise<string[]> {
  const errors: string[] = [];
  const note = async (body: () => unknown): Promise<void> => {
    try {
      await body();
    } catch (error) {
      errors.push(String(error));
    }
  };
  await note(() => exchangeRows('dp', [1]));
  await note(() =>
    exchangeRows(
      'dp',
      Array.from({ length: size }, () => 0.5),
    ),
  );
  const exchange = await exchangeRows(
    'dp',
    Array.from({ length: size }, () => 2),
  );
  await note(() => exchange.send(fromData(new Float32Array(3), [3], 'f32')));
  return errors;
}

describe.each([2, 3])('rows that %i ranks exchange, another number in each step', (size) => {
  const ranks = [...Array.from({ length: size }).keys()];
  const range = (count: number) => [...Array.from({ length: count }).keys()];
  let found: readonly Observations[] = [];

  beforeAll(async () => {
    found = await onRanks(size, observe);
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
