import { createThreadsWorld } from '@shardwise/collectives';
import { expect } from 'vitest';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { drawnPrograms } from './ranks/verify-programs.ts';

/** Fails if verify finds something in the right programs of these seeds. */
export async function expectNothingFound(ranks: number, seeds: readonly number[]): Promise<void> {
  const module = new URL('./ranks/verify-programs.ts', import.meta.url);
  const world = createThreadsWorld({ size: ranks });
  const [found] = await runRanks(ranks, module, { world, data: seeds, timeoutMs: 600_000 });
  const drawn = drawnPrograms.parse(found);
  expect(drawn.filter(({ verification }) => verification.finding !== null)).toEqual([]);
  expect(drawn).toHaveLength(seeds.length);
  for (const { verification } of drawn) expect(verification.compared).toBeGreaterThan(10);
}

/** The numbers from `first` to `end` - 1. */
export function seedsFrom(first: number, end: number): readonly number[] {
  return Array.from({ length: end - first }, (_, index) => first + index);
}

/** The number of ranks on which the program of a seed below 100 is verified. */
export function ranksOf(seed: number): 2 | 4 {
  return seed < 60 ? 2 : 4;
}
