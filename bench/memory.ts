import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Bench, BenchResult } from './bench.ts';
import { memoryOfRun, type MemoryOfRank, type MemoryOfRun } from './memory-messages.ts';
import { memoryModels } from './memory-models.ts';
import { memoryStrategies } from './memory-strategies.ts';
import { round } from './summary.ts';

const RANKS = 4;
const run = promisify(execFile);

/** What ranks keep with each strategy, beside what the papers' formulas say. */
export const memory: Bench = {
  about: `Memory of each of ${RANKS} ranks, measured beside theory`,
  run: async (): Promise<BenchResult> => {
    const rows: [string, string][] = [];
    const results: Record<string, unknown>[] = [];
    for (const [model, { about }] of Object.entries(memoryModels)) {
      rows.push([about, '']);
      for (const strategy of Object.keys(memoryStrategies)) {
        const result = compare(await train(model, strategy));
        rows.push([`  ${strategy}`, describe(result)]);
        results.push({ model, strategy, ...result });
      }
    }
    return { rows, record: { ranks: RANKS, results } };
  },
};

/** In a process of its own. */
async function train(model: string, strategy: string): Promise<MemoryOfRun> {
  const script = fileURLToPath(new URL('./memory-run.ts', import.meta.url));
  const { stdout } = await run(
    process.execPath,
    ['--conditions=@shardwise/source', '--expose-gc', script, model, strategy, String(RANKS)],
    { env: { ...process.env, NODE_OPTIONS: '' } },
  );
  return memoryOfRun.parse(JSON.parse(stdout));
}

/** Bytes of a rank; of the one that has most where they differ. */
interface Comparison {
  readonly formula: string;
  readonly statesBytes: number;
  readonly theoryStatesBytes: number;
  readonly statesRatio: number;
  /** The allocator's high-water mark over states, activations and one unit. */
  readonly peakBytes: number;
  readonly theoryPeakBytes: number;
  readonly peakRatio: number;
  /** A rank's share of what the process grew by, initial weights and garbage of the heap included. */
  readonly residentGrowthBytes: number;
  readonly residentRatio: number;
  /** The same of the steps after the first, without that garbage. */
  readonly residentOfStepsRatio: number | null;
  /**
   * At most so many bytes of gradients were there at once: what is left of the high-water mark
   * without parameters and optimizer states, which are there through all of a step. It proves
   * something where activations are few.
   */
  readonly gradientsAtOnceBytes: number;
  readonly allGradientsBytes: number;
}

function compare({ ranks, residentGrowthBytes, residentOfStepsBytes }: MemoryOfRun): Comparison {
  const [first] = ranks;
  if (first === undefined) throw new RangeError('no ranks');
  const most = (of: (rank: MemoryOfRank) => number): number => Math.max(...ranks.map(of));
  const statesBytes = most(
    (rank) => rank.parameterBytes + rank.gradientBytes + rank.optimizerBytes,
  );
  const peakBytes = most((rank) => rank.peakBytes);
  const { formula, theoryStatesBytes, allGradientsBytes } = first;
  const theoryPeakBytes = theoryStatesBytes + first.activationBytes + first.unitBytes;
  const residentBytes = residentGrowthBytes / ranks.length;
  return {
    formula,
    statesBytes,
    theoryStatesBytes,
    statesRatio: round(statesBytes / theoryStatesBytes, 4),
    peakBytes,
    theoryPeakBytes,
    peakRatio: round(peakBytes / theoryPeakBytes, 3),
    residentGrowthBytes: Math.round(residentBytes),
    residentRatio: round(residentBytes / theoryPeakBytes, 3),
    residentOfStepsRatio:
      residentOfStepsBytes && round(residentOfStepsBytes / ranks.length / theoryPeakBytes, 3),
    gradientsAtOnceBytes: most(
      (rank) => rank.peakBytes - rank.parameterBytes - rank.optimizerBytes,
    ),
    allGradientsBytes,
  };
}

function describe(of: Comparison): string {
  return [
    `${of.formula}: states ${mebibytes(of.statesBytes)} (${of.statesRatio})`,
    `peak ${mebibytes(of.peakBytes)} (${of.peakRatio})`,
    `resident ${mebibytes(of.residentGrowthBytes)} (${of.residentRatio}, in later steps ${of.residentOfStepsRatio ?? 'not known'})`,
    ...(of.gradientsAtOnceBytes < of.allGradientsBytes
      ? [
          `never more than ${mebibytes(of.gradientsAtOnceBytes)} of ${mebibytes(of.allGradientsBytes)} of gradients`,
        ]
      : []),
  ].join('; ');
}

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
