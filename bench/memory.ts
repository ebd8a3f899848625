import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Bench, BenchResult } from './bench.ts';
import { memoryOfRun, type MemoryOfRank, type MemoryOfRun } from './memory-messages.ts';
import { isMemoryModel, type MemoryModelName, memoryModels } from './memory-models.ts';
import { plannedPeakBytes } from './memory-plan.ts';
import {
  isMemoryStrategy,
  type MemoryStrategyName,
  memoryStrategies,
} from './memory-strategies.ts';
import { round } from './summary.ts';

const RANKS = 4;
const run = promisify(execFile);

/** Compares what ranks keep with each strategy with the formulas of the papers, and with what was planned. */
export const memory: Bench = {
  about: `Memory of each of ${RANKS} ranks, measured beside theory and beside the plan`,
  run: async (): Promise<BenchResult> => {
    const rows: [string, string][] = [];
    const results: Record<string, unknown>[] = [];
    for (const model of Object.keys(memoryModels).filter(isMemoryModel)) {
      rows.push([memoryModels[model].about, '']);
      for (const strategy of Object.keys(memoryStrategies).filter(isMemoryStrategy)) {
        const result = await compareMemory(model, strategy);
        rows.push([`  ${strategy}`, describe(result)]);
        results.push({ model, strategy, ...result });
      }
    }
    return { rows, record: { ranks: RANKS, results } };
  },
};

/** Plans the memory of a row, and then trains it. */
async function compareMemory(
  model: MemoryModelName,
  strategy: MemoryStrategyName,
): Promise<Comparison> {
  const plannedBytes = await plannedPeakBytes({ model, strategy }, RANKS);
  return compare(await train(model, strategy), plannedBytes);
}

/** Trains in a separate process. */
async function train(model: string, strategy: string): Promise<MemoryOfRun> {
  const script = fileURLToPath(new URL('./memory-run.ts', import.meta.url));
  const { stdout } = await run(
    process.execPath,
    ['--conditions=@shardwise/source', '--expose-gc', script, model, strategy, String(RANKS)],
    { env: { ...process.env, NODE_OPTIONS: '' } },
  );
  return memoryOfRun.parse(JSON.parse(stdout));
}

/** The figures of a rank in bytes. If ranks differ, they are those of the rank with the most. */
interface Comparison {
  readonly formula: string;
  readonly statesBytes: number;
  readonly theoryStatesBytes: number;
  readonly statesRatio: number;
  /** The allocator's high-water mark. In theory it consists of states, activations and one unit. */
  readonly peakBytes: number;
  /** What it was planned to be, before anything ran. */
  readonly plannedPeakBytes: number;
  /** The high-water mark over that of the plan. */
  readonly plannedRatio: number;
  readonly theoryPeakBytes: number;
  readonly peakRatio: number;
  /** A rank's share of the growth of the process, which includes initial weights and garbage of the heap. */
  readonly residentGrowthBytes: number;
  readonly residentRatio: number;
  /** The same ratio for the steps after the first one, without that garbage. */
  readonly residentOfStepsRatio: number | null;
  /**
   * An upper bound for the bytes of gradients that existed at the same time. It is the high-water mark without
   * parameters and optimizer states, which exist during the whole step. It is a close bound if there are few
   * activations.
   */
  readonly gradientsAtOnceBytes: number;
  readonly allGradientsBytes: number;
}

function compare(
  { ranks, residentGrowthBytes, residentOfStepsBytes }: MemoryOfRun,
  plannedPeak: number,
): Comparison {
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
    plannedPeakBytes: plannedPeak,
    plannedRatio: round(peakBytes / plannedPeak, 4),
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
    `peak ${mebibytes(of.peakBytes)} (${of.peakRatio}; planned ${mebibytes(of.plannedPeakBytes)}, ${of.plannedRatio})`,
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
