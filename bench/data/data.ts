import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bench } from '../bench.ts';
import type { RankRound } from '../rank-messages.ts';
import { startRanks } from '../ranks.ts';
import { roundsFlag, roundsOf } from '../rounds.ts';
import { median, pairedRatio, round, type Rounds } from '../summary.ts';
import { wall } from '../wall.ts';
import { workload } from '../workload.ts';

const ROUNDS = 8;
const STEPS_PER_ROUND = 10;
/** The corpus is repeated, so that no epoch ends while the benchmark measures. */
const REPEATS = 4;
const TARGETS = { spareCore: 1.05, noSpareCore: 1.1 } as const;

interface Measured {
  readonly ranks: number;
  readonly streamed: Rounds;
  readonly prepared: Rounds;
  readonly ratio: number;
  /** The processor time of a step of all ranks, with the threads that make their batches. */
  readonly cpuMs: { readonly streamed: number; readonly prepared: number };
  readonly target: number;
}

/** Compares a step on a stream that tokenizes and packs text in a thread with one on tokens prepared before. */
export const data: Bench = {
  about: 'a step with tokenizing, packing and streaming, next to one on prepared tokens',
  flags: { ...roundsFlag },
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const folder = mkdtempSync(join(tmpdir(), 'bench-data-'));
    const path = join(folder, 'corpus.txt');
    writeFileSync(path, corpus().repeat(REPEATS));
    try {
      const measured: Measured[] = [];
      for (const ranks of [1, 2]) measured.push(await measure(path, ranks, rounds));
      return {
        rows: measured.flatMap(({ ranks, streamed, prepared, ratio, cpuMs, target }) => [
          [
            `${ranks} ${ranks === 1 ? 'rank' : 'ranks'}`,
            `${streamed.medianMs.toFixed(1)} ms a step, ${prepared.medianMs.toFixed(1)} prepared: ${ratio.toFixed(3)} (target ${target})`,
          ],
          ['processor time', `${cpuMs.streamed} ms a step, ${cpuMs.prepared} prepared`],
        ]),
        record: { workload, targets: TARGETS, measured },
      };
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

async function measure(path: string, size: number, rounds: number): Promise<Measured> {
  const ranks = startRanks(size, 'data/data-rank.ts', { contestant: path, precision: 'f32' });
  const times: Record<'together' | 'alone', RankRound[][]> = { together: [], alone: [] };
  const cpu: Record<'together' | 'alone', number[]> = { together: [], alone: [] };
  try {
    for (let index = 0; index <= rounds; index++) {
      // They take turns in beginning, so that neither always follows the other.
      const modes =
        index % 2 === 0 ? (['together', 'alone'] as const) : (['alone', 'together'] as const);
      for (const mode of modes) {
        const before = process.cpuUsage();
        times[mode].push(await ranks.round({ mode, steps: STEPS_PER_ROUND }));
        // The first round warms up.
        if (index > 0) cpu[mode].push(cpuMsSince(before) / STEPS_PER_ROUND);
      }
    }
  } finally {
    await ranks.close();
  }
  const [streamed, prepared] = [wall(times.together), wall(times.alone)];
  const target = availableParallelism() > size ? TARGETS.spareCore : TARGETS.noSpareCore;
  return {
    ranks: size,
    streamed,
    prepared,
    ratio: round(pairedRatio(streamed, prepared), 3),
    cpuMs: {
      streamed: round(median(cpu.together), 1),
      prepared: round(median(cpu.alone), 1),
    },
    target,
  };
}

/** The processor time of all threads of this process since then. */
function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** The documents of this repository, a paragraph in each line. */
function corpus(): string {
  const root = join(import.meta.dirname, '../..');
  const files = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .toSorted()
    .map((name) => join(root, 'docs', name));
  return [join(root, 'README.md'), join(root, 'ARCHITECTURE.md'), ...files]
    .map((file) => readFileSync(file, 'utf8').replaceAll(/\n(?!\n)/g, ' '))
    .join('\n')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => `${line.trim()}\n`)
    .join('');
}
