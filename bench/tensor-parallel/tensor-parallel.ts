import type { Bench } from '../bench.ts';
import { median, round, tokensPerSecond } from '../summary.ts';
import { gridRows, measureGrids } from './measure-grids.ts';
import { measureMemory, memoryRows } from './memory.ts';
import { type Mode, modes, type RankRound } from './messages.ts';
import { startRanks } from './ranks.ts';
import { tokensPerStep, workload } from './workload.ts';

const ROUNDS = 5;
const STEPS_PER_ROUND = 2;
const TARGET = 0.85;

/** Compares two ranks that share out each layer with one rank that has two compute threads. */
export const tensorParallel: Bench = {
  about:
    'GPT training, tensor- and sequence-parallel on two ranks, against one rank of two threads',
  run: async () => {
    const rounds: Record<Mode, RankRound[][]> = {
      alone: [],
      tensor: [],
      sequence: [],
      gathering: [],
    };
    const ranks = modes.map((mode) => ({
      mode,
      started: startRanks(mode, workload.layers, workload.batch),
    }));
    try {
      for (let index = 0; index <= ROUNDS; index++) {
        for (const { mode, started } of ranks) {
          rounds[mode].push(await started.round(STEPS_PER_ROUND));
        }
      }
    } finally {
      for (const { started } of ranks) await started.close();
    }
    checkMessages(rounds);
    const memory = await measureMemory();
    const grids = await measureGrids();
    const summary = {
      alone: of(rounds.alone),
      tensor: of(rounds.tensor),
      sequence: of(rounds.sequence),
      gathering: of(rounds.gathering),
    };
    const ratio = (mode: Mode): number => summary.alone.bestMs / summary[mode].bestMs;
    const line = (mode: Mode): string =>
      `${Math.round(tokensPerSecond(tokensPerStep, summary[mode].bestMs))} tokens/s, ${summary[mode].bestMs.toFixed(1)} ms a step (median ${summary[mode].medianMs.toFixed(1)}), ${summary[mode].communicationMs.toFixed(1)} ms of it waiting`;
    return {
      rows: [
        ['one rank, two threads, best round', line('alone')],
        ['two ranks, tensor-parallel', line('tensor')],
        ['two ranks, sequence-parallel', line('sequence')],
        ['the same, gathering again in backward', line('gathering')],
        [`ratio of tensor-parallel (target ${TARGET})`, ratio('tensor').toFixed(3)],
        ['ratio of sequence-parallel', ratio('sequence').toFixed(3)],
        ...memoryRows(memory),
        ...(['tensor', 'sequence', 'gathering'] as const).map(
          (mode) =>
            [
              `messages of B·T·C elements in a step, ${mode}`,
              Object.entries(summary[mode].messages)
                .map(([operation, count]) => `${count} ${operation}`)
                .join(', '),
            ] as const,
        ),
        [
          'loss at the end, alone and on two ranks',
          modes.map((mode) => summary[mode].loss.toFixed(5)).join(', '),
        ],
        ...gridRows(grids),
      ],
      record: {
        workload,
        ratio: round(ratio('tensor'), 4),
        ratioOfSequenceParallel: round(ratio('sequence'), 4),
        target: TARGET,
        summary,
        memory,
        grids,
      },
    };
  },
};

interface Summary {
  readonly bestMs: number;
  readonly medianMs: number;
  readonly communicationMs: number;
  readonly peakBytes: number;
  readonly messages: Readonly<Record<string, number>>;
  readonly loss: number;
}

/** Summarizes rounds without the first one, which is a warm-up. A round takes as long as its slowest rank. */
function of(rounds: readonly (readonly RankRound[])[]): Summary {
  const measured = rounds.slice(1);
  const times = measured.map((ranks) => Math.max(...ranks.map(({ msPerStep }) => msPerStep)));
  const [last] = measured.at(-1) ?? [];
  return {
    bestMs: Math.min(...times),
    medianMs: median(times),
    communicationMs: median(measured.map(([first]) => first?.communicationMs ?? NaN)),
    peakBytes: last?.peakBytes ?? 0,
    messages: last?.activationMessages ?? {},
    loss: last?.loss ?? NaN,
  };
}

/**
 * Throws if the number of messages is wrong. There are two all-reduces per layer and pass, one after the embedding and
 * one before the head (Shoeybi et al. 2019). With sequence parallelism there are as many gathers and scatters. If
 * backward gathers again, there is one more gather before each of two products of a layer and the head (Korthikanti et
 * al. 2022).
 */
function checkMessages(rounds: Readonly<Record<Mode, readonly (readonly RankRound[])[]>>): void {
  const once = 4 * workload.layers + 2;
  const again = 2 * workload.layers + 1;
  for (const [mode, operation, expected] of [
    ['tensor', 'allReduce', once],
    ['sequence', 'allGather', once],
    ['sequence', 'reduceScatter', once],
    ['gathering', 'allGather', once + again],
    ['gathering', 'reduceScatter', once],
  ] as const) {
    const [last] = rounds[mode].at(-1) ?? [];
    const count = last?.activationMessages[operation];
    if (count === expected) continue;
    throw new Error(`${mode}: ${count} ${operation} of B·T·C elements a step, not ${expected}`);
  }
}
