import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';
import { mutated, randomProgram } from './random-program.ts';
import type { Outcome, ProgramsTask } from './run-programs.ts';

const url = new URL('./run-programs.ts', import.meta.url);
const timeoutMs = 300_000;

export async function outcomesOf(ranks: number, data: ProgramsTask): Promise<readonly Outcome[]> {
  const world = createThreadsWorld({ size: ranks, arenaBytes: 16 * 1024 * 1024 });
  const found = await spawnRanks(ranks, url, { world, data, timeoutMs });
  return (found as readonly (readonly Outcome[])[]).flat();
}

/** What each rank of a program says whose rank 1 has another version of it. */
export async function errorsOf(ranks: number, seed: number): Promise<readonly (string | null)[]> {
  const world = createThreadsWorld({ size: ranks, arenaBytes: 16 * 1024 * 1024 });
  const options = { world, data: seed, name: 'runMutated', timeoutMs };
  return (await spawnRanks(ranks, url, options)) as readonly (string | null)[];
}

test.each<[ranks: number, from: number, count: number]>([
  [2, 1, 40],
  [4, 201, 10],
])(
  'programs of %i ranks whose ranks read different values have the values of those that read all (seeds from %i on)',
  async (ranks, from, count) => {
    const outcomes = await outcomesOf(ranks, { from, count, device: 'interpreter' });
    expect(
      outcomes.flatMap(({ seed, differs }) => (differs === null ? [] : [seed, differs])),
    ).toEqual([]);
    const read = outcomes.reduce((sum, each) => sum + each.read, 0);
    const refused = outcomes.reduce((sum, each) => sum + each.refused, 0);
    expect(read).toBeGreaterThan(10 * count * ranks);
    // What cannot be read any more, because a step has updated what it was made of, is refused.
    expect(refused / read).toBeLessThan(0.1);
  },
  timeoutMs,
);

test(
  'programs of which one rank has one collective less, one more, or two swapped, are errors',
  async () => {
    const seeds = Array.from({ length: 12 }, (_, index) => index + 1).filter(
      (seed) => mutated(randomProgram(seed, 2)) !== null,
    );
    expect(seeds.length).toBeGreaterThan(5);
    for (const seed of seeds) {
      const errors = await errorsOf(2, seed);
      expect(errors.join(' '), `program ${seed}`).toMatch(
        /Collective(Mismatch|Aborted|Timeout)Error/,
      );
    }
  },
  timeoutMs,
);
