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

/**
 * What the ranks say of the programs with these seeds, of which rank 1 has another version. Each entry has the seed, the
 * number of the change, and the errors of all ranks. Programs that cannot be changed so are left out.
 */
export async function errorsOf(ranks: number, seeds: Iterable<number>, mutation: number) {
  const changed = [...seeds].filter(
    (seed) => mutated(randomProgram(seed, ranks), mutation) !== null,
  );
  const programs = changed.map((seed) => ({
    seed,
    mutation,
    world: createThreadsWorld({ size: ranks, arenaBytes: 2 * 1024 * 1024 }),
  }));
  const options = { data: { programs }, name: 'runMutated', timeoutMs };
  const found = (await spawnRanks(ranks, url, options)) as readonly (readonly (string | null)[])[];
  return changed.map((seed, index) => ({
    seed,
    mutation,
    errors: found.map((ofRank) => ofRank[index] ?? null),
  }));
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
  'programs of which one rank has a call or a pass less, more, elsewhere or of another model, or another learning rate, are errors',
  async () => {
    const seeds = Array.from({ length: 25 }, (_, index) => index + 1);
    const found = await errorsOf(2, seeds, 0);
    expect(found.length).toBeGreaterThan(10);
    for (const { seed, errors } of found) {
      expect(errors.join(' '), `program ${seed}`).toMatch(
        /Collective(Mismatch|Aborted|Timeout)Error|lr is 0.05 on rank 0 and 0.051 on rank 1/,
      );
    }
  },
  timeoutMs,
);
