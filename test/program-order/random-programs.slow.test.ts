import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { runShardwise } from '../support/run-shardwise.ts';
import { differencesOf, errorsOf, isTold, threadOutcomes } from './random-programs.ts';

const slowMs = 3_600_000;

const outcomes = z.array(
  z.object({
    seed: z.number(),
    read: z.number(),
    refused: z.number(),
    differs: z.string().nullable(),
  }),
);

test.each<[ranks: number, from: number, count: number, device: 'cpu' | 'interpreter']>([
  [2, 10_000, 1000, 'interpreter'],
  [2, 11_000, 400, 'cpu'],
  [4, 12_000, 200, 'interpreter'],
])(
  'programs of %i threads have the values of those that read all (seeds from %i on, %i of them, on %s)',
  async (ranks, from, count, device) => {
    const all = [];
    for (let seed = from; seed < from + count; seed += 50) {
      all.push(...(await threadOutcomes(ranks, { from: seed, count: 50, device })));
    }
    expect(differencesOf(all)).toEqual([]);
  },
  slowMs,
);

test.each([[2], [3]])(
  'programs of %i processes have the values of those that read all',
  async (ranks) => {
    const cwd = await mkdtemp(join(tmpdir(), 'shardwise-programs-'));
    const script = join(import.meta.dirname, 'programs-in-processes.ts');
    const args = ['run', '--plain', '--ranks', 'processes', '--nproc', String(ranks)];
    const { exitCode, stdout, output } = await runShardwise([...args, script, '20000', '200'], {
      cwd,
    });
    expect(exitCode, output).toBe(0);
    const printed = [...stdout.matchAll(/outcomes (\[.*\])$/gm)].map(([, text = '']) => text);
    expect(printed).toHaveLength(ranks);
    const all = printed.flatMap((text) => outcomes.parse(JSON.parse(text)));
    expect(all).toHaveLength(200 * ranks);
    expect(differencesOf(all)).toEqual([]);
  },
  slowMs,
);

test(
  'programs of which one rank has another version are errors',
  async () => {
    for (let mutation = 0; mutation < 20; mutation++) {
      const seeds = Array.from({ length: 40 }, (_, index) => 30_000 + 40 * mutation + index);
      const silent = (await errorsOf(2, seeds, mutation)).filter(({ errors }) => !isTold(errors));
      expect(silent).toEqual([]);
    }
  },
  slowMs,
);
