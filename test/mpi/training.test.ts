import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { findMpis, spawnRanks, type MpiLauncher } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { runCommand } from '../support/run-command.ts';
import { training } from './training.ts';

async function trainUnder(
  { command, argumentsFor, environment }: MpiLauncher,
  size: number,
): Promise<readonly z.infer<typeof training>[]> {
  const folder = await mkdtemp(join(tmpdir(), 'shardwise-mpi-'));
  try {
    const program = new URL('./training-program.ts', import.meta.url).pathname;
    const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
    const ended = await runCommand(
      'env',
      [...variables, command, ...argumentsFor(size), process.execPath, program, folder],
      { cwd: folder },
    );
    expect(ended.exitCode, ended.output).toBe(0);
    const texts = Array.from({ length: size }, (_, rank) =>
      readFile(join(folder, `${rank}.json`), 'utf8'),
    );
    return (await Promise.all(texts)).map((text) => training.parse(JSON.parse(text)));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function trainOnThreads(size: number): Promise<readonly unknown[]> {
  return spawnRanks(size, new URL('./training.ts', import.meta.url), {
    name: 'onThreads',
    world: createThreadsWorld({ size, arenaBytes: 16 << 20 }),
  });
}

for (const found of findMpis()) {
  const title = 'missing' in found ? `${found.name} is not here: ${found.missing}` : found.name;
  describe.skipIf('missing' in found)(`data-parallel training, ${title}`, () => {
    it.each([2, 3])('on %i ranks it gives the bits of threads', async (size) => {
      if (!('launcher' in found)) return;
      const ranks = await trainUnder(found.launcher, size);
      expect(ranks).toEqual(await trainOnThreads(size));
      expect(ranks[0]?.parameters).toEqual(ranks[1]?.parameters);
      expect(ranks[0]?.losses[4]).toBeLessThan(ranks[0]?.losses[0] ?? 0);
    });
  });
}
