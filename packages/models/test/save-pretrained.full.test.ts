import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { manualSeed, setRank } from '@shardwise/core';
import { LlamaForCausalLM } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { interpreter } from '@shardwise/testing';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { config, type Job, readSchema, strategyNames } from './ranks/pretrained.ts';

const timeoutMs = 900_000;
const url = new URL('./ranks/pretrained.ts', import.meta.url);

let directory = '';
let saved = '';
let weightBytes = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-pretrained-'));
  saved = join(directory, 'alone');
  setRank({ device: interpreter() });
  manualSeed(0);
  const model = new LlamaForCausalLM(config);
  weightBytes = 4 * model.parameters().reduce((sum, { numel }) => sum + numel, 0);
  await savePretrained(model, saved, { maxShardBytes: 100_000 });
});

/** A model may be made in parts, or whole before it is loaded. */
function ways(ranks: number): readonly Job['way'][] {
  return ranks === 2 ? ['fromPretrained', 'loadPretrained'] : ['fromPretrained'];
}

/** Runs jobs on a number of ranks. Returns what each rank has read, by job. */
async function run(ranks: number, jobs: readonly Job[]): Promise<z.infer<typeof readSchema>[]> {
  const world = createThreadsWorld({ size: ranks, arenaBytes: 64 * 1024 * 1024 });
  const found = await spawnRanks(ranks, url, { world, data: jobs, timeoutMs });
  return z.array(readSchema).length(ranks).parse(found);
}

/** The hash of each file of a folder. */
async function hashesOf(folder: string): Promise<Record<string, string>> {
  const names = (await readdir(folder)).toSorted();
  const hashes = names.map(async (name): Promise<[string, string]> => {
    const file = await readFile(join(folder, name));
    return [name, createHash('sha256').update(file).digest('hex')];
  });
  return Object.fromEntries(await Promise.all(hashes));
}

describe.each([1, 2, 4])('a model on %d ranks', (ranks) => {
  it(
    'is saved as the same files, byte for byte, with every strategy that has loaded it',
    async () => {
      const jobs = strategyNames.flatMap((strategy) =>
        ways(ranks).map((way, index) => ({
          strategy,
          way,
          from: saved,
          to: join(directory, `${ranks}-${strategy}-${index}`),
        })),
      );
      const read = await run(ranks, jobs);
      const expected = await hashesOf(saved);
      expect(Object.keys(expected).length).toBeGreaterThan(4);
      for (const { to } of jobs) expect(await hashesOf(to), to).toEqual(expected);
      // Each rank has read its parts, and headers.
      const headerBytes = 2 * 4096 * Object.keys(expected).length;
      for (const [index, { strategy }] of jobs.entries()) {
        const bytes = read.map((results) => results[index] ?? { readBytes: 0, partBytes: 0 });
        for (const { readBytes, partBytes } of bytes) {
          expect(readBytes, strategy).toBeLessThan(partBytes + headerBytes);
        }
        if (strategy === 'ddp') continue;
        const total = bytes.reduce((sum, { readBytes }) => sum + readBytes, 0);
        expect(total, strategy).toBeLessThan(1.1 * weightBytes + ranks * headerBytes);
      }
    },
    timeoutMs + 20_000,
  );
});
