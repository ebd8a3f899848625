import { readTextFiles } from '@shardwise/core/node';
import { spawnRanks } from '@shardwise/testing/node';
import { data, dist } from 'shardwise';
import { z } from 'zod';
import { readOptions } from '../../examples/gpt/options.ts';
import type { Bench, BenchResult } from '../bench.ts';
import { countOf } from '../rounds.ts';
import { round } from '../summary.ts';
import type { Contestant, Job, Outcome } from './messages.ts';

const RANKS = 8;
const SEEDS = [1, 2];
const LINK = { bitsPerSecond: 100e6, latencySeconds: 0.05 };
/** A step of the large model on a slow core: 6 operations for each parameter and token, at 13 GFLOP/s. */
const STEP_SECONDS = 0.05;
const TEXT_BYTES = 4 << 20;

/**
 * The large model has 0.8 million parameters. The small one is for a look at the curves: latency is most of its time, so
 * its ratio of times says little.
 */
const sizes = {
  small: { vocabularySize: 256, contextLength: 32, layers: 1, heads: 2, channels: 64 },
  large: { vocabularySize: 256, contextLength: 64, layers: 4, heads: 4, channels: 128 },
} as const;
const usual = { small: 208, large: 1000 } as const;

/** Not those of the paper (0.7 and 0.9), whose momentum goes too far in the few outer steps of these runs. */
const outer = { lr: 1, momentum: 0.5 } as const;

/** 32 bits of `ddp` take 7.76 times the bytes of 4 bits with their scales: 13 updates are 1/100, and 52 are 1/400. */
const contestants: readonly Contestant[] = [
  { name: 'ddp', diloco: null },
  { name: 'diloco, f32, every 13', diloco: { every: 13, outer } },
  { name: 'diloco, 4 bits, every 13', diloco: { every: 13, bits: 4, outer } },
  { name: 'diloco, 4 bits, every 52', diloco: { every: 52, bits: 4, outer } },
];

/** Compares ranks that meet seldom with data parallelism, on the same tokens, over slow links. */
export const noLockStep: Bench = {
  about: `validation loss, bytes and time of DiLoCo next to DDP: ${RANKS} ranks over links of 100 Mbit/s and 50 ms`,
  flags: { large: { type: 'boolean' }, steps: { type: 'string' } },
  run: async (values) => {
    const size = values['large'] === true ? 'large' : 'small';
    const steps = countOf(values, 'steps', usual[size]);
    const text = data.splitText(await readTextFiles(readOptions([]).data), 0.05);
    const job: Job = {
      contestants,
      seeds: SEEDS,
      steps,
      model: sizes[size],
      batchSize: 2,
      learningRate: 2e-3,
      text: {
        train: text.train.slice(0, TEXT_BYTES),
        validation: text.validation.slice(0, TEXT_BYTES),
      },
      link: LINK,
      stepSeconds: STEP_SECONDS,
    };
    const found = await spawnRanks(RANKS, new URL('./rank.ts', import.meta.url), {
      world: dist.transports.createThreadsWorld({ size: RANKS, arenaBytes: 128 << 20 }),
      data: job,
      timeoutMs: 6 * 3600 * 1000,
    });
    return resultOf(z.array(z.array(outcome)).length(RANKS).parse(found), job, size);
  },
};

const outcome: z.ZodType<Outcome> = z.object({
  contestant: z.string(),
  seed: z.number(),
  training: z.array(z.number()),
  validation: z.number().nullable(),
  sentBytes: z.number(),
  seconds: z.number(),
});

interface Summary {
  readonly contestant: string;
  /** The validation loss of each seed, in nats a byte, and their mean. */
  readonly validation: readonly number[];
  readonly meanValidation: number;
  /** The mean training losses over all ranks in tenths of the steps, for each seed. */
  readonly training: readonly (readonly number[])[];
  /** The most bytes that a rank has sent in a step, in the mean. */
  readonly bytesPerStep: number;
  /** The seconds of a step, in the mean, on the clock of the links. */
  readonly secondsPerStep: number;
}

function resultOf(ranks: readonly (readonly Outcome[])[], job: Job, size: string): BenchResult {
  const summaries = contestants.map(({ name }) => summaryOf(name, ranks, job));
  const [ddp] = summaries;
  if (ddp === undefined) throw new RangeError('no contestants');
  const compared = summaries.map((each) => ({
    ...each,
    bytesOfDdp: ddp.bytesPerStep / each.bytesPerStep,
    timesFaster: ddp.secondsPerStep / each.secondsPerStep,
    lossAboveDdp: each.meanValidation / ddp.meanValidation - 1,
  }));
  const rows = compared.map((each) => {
    const { meanValidation: loss, lossAboveDdp, bytesPerStep, secondsPerStep } = each;
    const bytes = `${Math.round(bytesPerStep)} bytes a step (1/${round(each.bytesOfDdp, 1)})`;
    const time = `${round(secondsPerStep, 3)} s a step (${round(each.timesFaster, 1)} times)`;
    const above = `${round(100 * lossAboveDdp, 2)} % above ddp`;
    return [each.contestant, `loss ${round(loss, 4)} (${above}), ${bytes}, ${time}`] as const;
  });
  const { steps, model, link, stepSeconds } = job;
  return {
    rows,
    record: { size, ranks: RANKS, steps, model, link, stepSeconds, seeds: SEEDS, compared },
  };
}

function summaryOf(name: string, ranks: readonly (readonly Outcome[])[], { steps }: Job): Summary {
  const own = ranks.map((outcomes) => outcomes.filter(({ contestant }) => contestant === name));
  const first = own[0] ?? [];
  const all = own.flat();
  const validation = first.map((each) => each.validation ?? NaN);
  return {
    contestant: name,
    validation,
    meanValidation: mean(validation),
    training: SEEDS.map((seed) => {
      const ofSeed = all.filter((each) => each.seed === seed).map(({ training }) => training);
      return (ofSeed[0] ?? []).map((_, tenth) => mean(ofSeed.map((each) => each[tenth] ?? NaN)));
    }),
    bytesPerStep: Math.max(...all.map(({ sentBytes }) => sentBytes)) / steps,
    secondsPerStep: Math.max(...all.map(({ seconds }) => seconds)) / steps,
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
