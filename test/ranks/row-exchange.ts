import { allGatherRows, exchangeRows, fromData, statistics } from '@shardwise/core';
import type { RankContext } from '@shardwise/testing';
import { z } from 'zod';
import { join } from './join.ts';

export const steps = 12;

/**
 * Returns the number of rows that one rank sends to another in a step. It may be 0, and in step 1 all rows go to rank
 * 0.
 */
export function countOf(step: number, from: number, to: number): number {
  if (step === 1) return to === 0 ? 5 : 0;
  return (step * 5 + from * 3 + to * 7) % 6;
}

/** Returns the value of a row, which says where the row comes from. It is repeated three times. */
export function rowOf(from: number, row: number): number {
  return 100 * from + row;
}

export const observations = z.object({
  received: z.array(z.array(z.number())),
  back: z.array(z.array(z.number())),
  gradients: z.array(z.array(z.number())),
  gathered: z.array(z.number()),
  gatheredGradient: z.array(z.number()),
  plansOfLastSteps: z.number(),
  errors: z.array(z.string()),
});
export type Observations = z.infer<typeof observations>;

export async function main(context: RankContext): Promise<Observations> {
  await join(context);
  const { rank, size } = context;
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
