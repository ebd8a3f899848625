import { availableParallelism } from 'node:os';
import type { BenchResult } from '../bench.ts';
import { round, tokensPerSecond } from '../summary.ts';
import { compare, type Compared, type Part, ratiosOf } from './measure.ts';

const TOKENS = 128;
const batches = [1, 4] as const;

/** Greedy text of GPT-2 by a cache of keys and values, with all cores. */
export const generation: Part = {
  about: `${TOKENS} greedy tokens of GPT-2, for 1 and 4 rows`,
  run: async ({ rounds }): Promise<BenchResult> => {
    const task = {
      ranks: 1,
      threads: availableParallelism(),
      rows: Math.max(...batches),
      length: 32,
    };
    const requests = batches.map((rows) => ({ rows, tokens: TOKENS }));
    const all = await compare('gpt2', task, requests, rounds);
    const rate = (rows: number, ms: number): number => round(tokensPerSecond(rows * TOKENS, ms), 1);
    return {
      rows: all.map((compared, index) => [
        `${batches[index]} rows`,
        textOf(compared, rate(batches[index] ?? 0, compared.ours.times.medianMs)),
      ]),
      record: Object.fromEntries(
        all.map((compared, index) => [
          `${batches[index]} rows`,
          {
            ...ratiosOf(compared),
            sameTokens: sameTokens(compared),
            tokensPerSecond: rate(batches[index] ?? 0, compared.ours.times.medianMs),
            ours: compared.ours.times,
            theirs: 'reason' in compared.theirs ? compared.theirs : compared.theirs.times,
          },
        ]),
      ),
    };
  },
};

function textOf(compared: Compared, rate: number): string {
  const { theirs } = compared;
  if ('reason' in theirs) return `${rate} tokens/s; Python not measured: ${theirs.reason}`;
  const { ratio, ratioOfBest, ratioOfCpuTime } = ratiosOf(compared);
  const same = sameTokens(compared) ?? 0;
  return `${rate} tokens/s; ratio ${ratio} (best ${ratioOfBest}, processor time ${ratioOfCpuTime}); the first ${same} tokens are Python's`;
}

/** How many tokens of the rows are the same, from the first on. Sums that are added in another order may end this. */
function sameTokens({ ours, theirs }: Compared): number | null {
  if ('reason' in theirs) return null;
  const others = theirs.first.tokens;
  const counts = ours.first.tokens.map((row, index) => {
    const differs = row.findIndex((token, at) => token !== others[index]?.[at]);
    return differs === -1 ? row.length : differs;
  });
  return Math.min(...counts) - 32;
}
