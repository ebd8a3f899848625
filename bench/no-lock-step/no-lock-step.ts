import { readTextFiles } from '@shardwise/core/node';
import { data } from 'shardwise';
import { readOptions } from '../../examples/gpt/options.ts';
import type { Bench, BenchResult } from '../bench.ts';
import { countOf } from '../rounds.ts';
import { round } from '../summary.ts';
import { UsageError } from '../usage-error.ts';
import { compare, type Summary } from './compare.ts';
import type { Contestant, Job } from './job.ts';

const RANKS = 8;
const SEEDS = [1, 2];
const LINK = { bitsPerSecond: 100e6, latencySeconds: 0.05 };
/** Those of the large model, with 6 operations for each parameter and token, at 1.06 TFLOP/s, as of a GPU in a processor. */
const TOKEN_SECONDS = 0.05 / 10_240;
const TEXT_BYTES = 4 << 20;

/** The large model has 0.8 million parameters. The small one is for a look at the curves. */
const sizes = {
  small: {
    model: { vocabularySize: 256, contextLength: 32, layers: 1, heads: 2, channels: 64 },
    batchSize: 16,
    learningRate: 0.016,
    steps: 104,
  },
  large: {
    model: { vocabularySize: 256, contextLength: 32, layers: 4, heads: 4, channels: 128 },
    batchSize: 128,
    learningRate: 0.008,
    steps: 52,
  },
} as const;

/** Not those of the paper (0.7 and 0.9), whose momentum goes too far in the few outer steps of these runs (README.md). */
const outer = { lr: 1, momentum: 0 } as const;
const often = { every: 13, bits: 4, outer } as const;

/** 32 bits of `ddp` take 7.76 times the bytes of 4 bits with their scales: 13 updates are 1/100, and 52 are 1/400. */
const contestants: readonly Contestant[] = [
  { name: 'ddp', diloco: null },
  { name: 'diloco, 4 bits, every 13', diloco: often },
  { name: 'diloco, 4 bits, every 52', diloco: { ...often, every: 52 } },
  { name: 'diloco, 4 bits, every 13, ranks come and go', diloco: often, away: 0.25 },
];
/** A multiple of each `every`, so that a training ends with an outer step. */
const STEPS_UNIT = 52;

/** Compares ranks that meet seldom with data parallelism, on the same tokens, over slow links. */
export const noLockStep: Bench = {
  about: `validation loss, bytes and time of DiLoCo next to DDP: ${RANKS} ranks over links of 100 Mbit/s and 50 ms`,
  flags: { large: { type: 'boolean' }, steps: { type: 'string' }, batch: { type: 'string' } },
  run: async (values) => {
    const size = values['large'] === true ? 'large' : 'small';
    const { model, learningRate, ...usual } = sizes[size];
    const steps = countOf(values, 'steps', usual.steps);
    const batchSize = countOf(values, 'batch', usual.batchSize);
    if (steps % STEPS_UNIT !== 0) {
      throw new UsageError(`--steps is ${steps}`, `Give a multiple of ${STEPS_UNIT}`);
    }
    const text = data.splitText(await readTextFiles(readOptions([]).data), 0.05);
    const job: Job = {
      contestants,
      seeds: SEEDS,
      steps,
      model,
      batchSize,
      learningRate,
      text: {
        train: text.train.slice(0, TEXT_BYTES),
        validation: text.validation.slice(0, TEXT_BYTES),
      },
      link: LINK,
      stepSeconds: batchSize * model.contextLength * TOKEN_SECONDS,
    };
    return resultOf(await compare(job, RANKS), job, size);
  },
};

function resultOf(summaries: readonly Summary[], job: Job, size: string): BenchResult {
  const rows = summaries.flatMap((each): BenchResult['rows'] => {
    const { meanValidation, lossAboveFirst, bytesPerStep, secondsPerStep } = each;
    const loss = `loss ${round(meanValidation, 4)} (${round(100 * lossAboveFirst, 2)} % above ddp)`;
    const bytes = `${Math.round(bytesPerStep)} bytes a step (1/${round(each.timesFewerBytes, 1)})`;
    const time = `${round(secondsPerStep, 3)} s a step (${round(each.timesFaster, 1)} times)`;
    const curves = each.training.map((curve) => curve.map((value) => value.toFixed(2)).join(' '));
    return [
      [each.contestant, `${loss}, ${bytes}, ${time}`],
      ...curves.map((curve) => ['', curve] as const),
    ];
  });
  const { text: _, ...settings } = job;
  return { rows, record: { size, ranks: RANKS, ...settings, contestants: summaries } };
}
