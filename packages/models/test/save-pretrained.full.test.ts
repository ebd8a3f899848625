import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { manualSeed, setRank } from '@shardwise/core';
import { savePretrained } from '@shardwise/models/node';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Job,
  models,
  load,
  type Read,
  type StrategyName,
  strategyNames,
} from './ranks/pretrained.ts';

let directory = '';
const weightBytes: Record<string, number> = {};

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-pretrained-'));
  setRank({ device: interpreter() });
  manualSeed(0);
  for (const [name, build] of Object.entries(models)) {
    const model = build();
    weightBytes[name] = 4 * model.parameters().reduce((sum, { numel }) => sum + numel, 0);
    await savePretrained(model, join(directory, name), { maxShardBytes: 100_000 });
  }
});

/** A model may be made in parts, or whole before it is loaded. */
function ways(ranks: number): readonly Job['way'][] {
  return ranks === 2 ? ['fromPretrained', 'loadPretrained'] : ['fromPretrained'];
}

/** Runs jobs on a number of ranks. Returns what each rank has read, by job. */
function run(ranks: number, jobs: readonly Job[]): Promise<readonly Read[][]> {
  return onRanks(ranks, async (place) => {
    const read: Read[] = [];
    for (const job of jobs) read.push(await load(place, job));
    return read;
  });
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

/** The strategies of a model. Experts are sharded row by row, and in stretches that begin anywhere. */
function strategiesOf(model: Job['model']): readonly StrategyName[] {
  return model === 'llama' ? strategyNames.filter((name) => name !== 'ep') : ['zero-3', 'fsdp'];
}

describe.each([
  ['llama', 1],
  ['llama', 2],
  ['llama', 4],
  ['mixtral', 4],
] as const)('%s on %d ranks', (model, ranks) => {
  it('is saved as the same files, byte for byte, with every strategy that has loaded it', async () => {
    const jobs = strategiesOf(model).flatMap((strategy) =>
      ways(ranks).map((way, index) => ({
        model,
        strategy,
        way,
        from: join(directory, model),
        to: join(directory, `${ranks}-${model}-${strategy}-${index}`),
      })),
    );
    const read = await run(ranks, jobs);
    const expected = await hashesOf(join(directory, model));
    expect(Object.keys(expected).length).toBeGreaterThan(2);
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
      expect(total, strategy).toBeLessThan(1.1 * (weightBytes[model] ?? 0) + ranks * headerBytes);
    }
  });
});

it('each of 2 ranks makes and reads its part of a file in bf16 in two bytes a number, and saves the same files', async () => {
  setRank({ device: interpreter() });
  manualSeed(0);
  const from = join(directory, 'llama-bf16');
  await savePretrained(models.llama(), from, { maxShardBytes: 100_000, dtype: 'bf16' });
  const jobs = (['bf16', 'auto'] as const).flatMap((dtype) =>
    strategiesOf('llama').map((strategy): Job => {
      const to = join(directory, `bf16-${dtype}-${strategy}`);
      return { model: 'llama', strategy, way: 'fromPretrained', dtype, from, to };
    }),
  );
  const read = await run(2, jobs);
  const expected = await hashesOf(from);
  const headerBytes = 2 * 4096 * Object.keys(expected).length;
  for (const [index, { strategy, to }] of jobs.entries()) {
    expect(await hashesOf(to ?? ''), strategy).toEqual(expected);
    const bytes = read.map((results) => results[index] ?? { readBytes: 0, partBytes: 0 });
    for (const { readBytes, partBytes } of bytes) {
      expect(readBytes, strategy).toBeLessThan(partBytes + headerBytes);
    }
    if (strategy === 'ddp') continue;
    const total = bytes.reduce((sum, { partBytes }) => sum + partBytes, 0);
    expect(total, strategy).toBeLessThan((1.1 * (weightBytes['llama'] ?? 0)) / 2);
  }
});

it.each([2, 4])(
  'each of %d ranks of expert parallelism reads its own experts, and no others',
  async (ranks) => {
    const jobs = ways(ranks).map((way, index): Job => {
      const to = join(directory, `${ranks}-experts-${index}`);
      return { model: 'mixtral4', strategy: 'ep', way, from: join(directory, 'mixtral4'), to };
    });
    const read = await run(ranks, jobs);
    const expected = await hashesOf(join(directory, 'mixtral4'));
    for (const { to } of jobs) expect(await hashesOf(to ?? ''), to).toEqual(expected);

    const expertBytes = 4 * 3 * 64 * 96;
    const otherExperts = 2 * (4 - 4 / ranks) * expertBytes;
    const ownBytes = (weightBytes['mixtral4'] ?? 0) - otherExperts;
    expect(ownBytes).toBeLessThan(0.8 * (weightBytes['mixtral4'] ?? 0));
    const headerBytes = 2 * 4096 * Object.keys(expected).length;
    for (const { readBytes, partBytes } of read.flat()) {
      expect(partBytes).toBe(ownBytes);
      expect(readBytes).toBeGreaterThanOrEqual(ownBytes);
      expect(readBytes).toBeLessThan(ownBytes + headerBytes);
    }
  },
);
