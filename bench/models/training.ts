import type { BenchResult } from '../bench.ts';
import { round, tokensPerSecond } from '../summary.ts';
import type { BenchModel } from './folders.ts';
import { compare, type Compared, divisions, type Part, ratiosOf } from './measure.ts';

const precisions = ['f32', 'bf16'] as const;

interface Workload {
  readonly model: BenchModel;
  /** The rows of a batch, which the ranks divide, and their tokens. */
  readonly rows: number;
  readonly length: number;
}

/** Makes a part that measures training steps on one rank with all cores, and on two ranks. */
export function trainingPart(about: string, { model, rows, length }: Workload): Part {
  return {
    about,
    run: async ({ rounds }): Promise<BenchResult> => {
      const results: (BenchResult['rows'][number] & {})[] = [];
      const record: Record<string, unknown> = { rows, length };
      for (const division of divisions) {
        const requests = precisions.map((precision) => ({ steps: 1, precision }));
        const all = await compare(model, { ...division, rows, length }, requests, rounds);
        for (const [index, compared] of all.entries()) {
          const precision = precisions[index] ?? 'f32';
          const label = `${model}, ${division.ranks} × ${division.threads}, ${precision}`;
          results.push([label, textOf(compared, rows * length)]);
          record[`${division.ranks} × ${division.threads}, ${precision}`] = {
            ...ratiosOf(compared),
            tokensPerSecond: round(tokensPerSecond(rows * length, compared.ours.times.medianMs), 1),
            ...compared,
          };
        }
      }
      return { rows: results, record };
    },
  };
}

function textOf(compared: Compared, tokens: number): string {
  const { ours, theirs } = compared;
  const own = `${Math.round(ours.times.medianMs)} ms a step, ${Math.round(tokensPerSecond(tokens, ours.times.medianMs))} tokens/s`;
  if ('reason' in theirs) return `${own}; Python not measured: ${theirs.reason}`;
  const { ratio, ratioOfBest, ratioOfCpuTime } = ratiosOf(compared);
  const losses = [ours, theirs].map(({ first }) => first.losses[0]?.toFixed(4));
  return `${own}; Python ${Math.round(theirs.times.medianMs)} ms; ratio ${ratio} (best ${ratioOfBest}, processor time ${ratioOfCpuTime}); first losses ${losses.join(', ')}`;
}
