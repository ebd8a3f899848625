import { wasm } from '@shardwise/backend-cpu/wasm';
import type { Bench, BenchResult } from './bench.ts';
import { chosenOf } from './chosen.ts';
import { pageModels } from './page-models.ts';
import { ours } from './page-ours.ts';
import {
  type PageContestant,
  pagePeerNames,
  type PageRequest,
  startPagePeer,
} from './page-peer.ts';
import { pageRanks } from './page-ranks.ts';
import { roundsFlag, roundsOf } from './rounds.ts';
import { median, round } from './summary.ts';
import { wasmPeak } from './wasm-peak.ts';

const ROUNDS = 3;
const SIZES = ['256', '512', '1024', '2048'] as const;
const ROUND_FLOPS = 2e10;
const MOST_RUNS = 20;
/** The number of steps of a model in a round. */
const STEPS = 5;

const PARTS = ['squares', 'training', 'ranks'] as const;
type Part = (typeof PARTS)[number];

/**
 * The best time of a contestant for a product, or its median for a step, or why there is none. `cpuMs` is the median of
 * the rounds.
 */
type Figure =
  | { readonly ms: number; readonly cpuMs: number; readonly losses: readonly number[] }
  | { readonly reason: string };

/** Measures what a page has without a GPU: WebAssembly, in the engine that runs this program. */
export const page: Bench = {
  about:
    'products of matrices and training by WebAssembly on one thread, against jax-js, TensorFlow.js and multiply-adds in registers; one and two ranks in a page',
  flags: { ...roundsFlag, sizes: { type: 'string' }, parts: { type: 'string' } },
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const parts = chosenOf(values, 'parts', PARTS);
    const sizes = chosenOf(values, 'sizes', SIZES).map(Number);
    const contests = parts.filter((part) => part !== 'ranks');
    const found = contests.length === 0 ? [] : [await compare(contests, sizes, rounds)];
    if (parts.includes('ranks')) found.push(await pageRanks(rounds));
    return {
      rows: found.flatMap(({ rows }) => rows),
      record: Object.assign({}, ...found.map(({ record }) => record)),
    };
  },
};

type Contestants = readonly (readonly [name: string, contestant: PageContestant | string])[];

async function compare(
  parts: readonly Part[],
  sizes: readonly number[],
  rounds: number,
): Promise<BenchResult> {
  const contestants: (readonly [name: string, contestant: PageContestant | string])[] = [
    ['shardwise', ours(await wasm(), 'WebAssembly, one thread')],
  ];
  for (const name of pagePeerNames) contestants.push([name, await startPagePeer(name)]);
  const results: BenchResult[] = [];
  if (parts.includes('squares')) results.push(await multiply(contestants, sizes, rounds));
  if (parts.includes('training')) results.push(await train(contestants, rounds));
  for (const [, contestant] of contestants) {
    if (typeof contestant !== 'string') await contestant.close();
  }
  const about = Object.fromEntries(
    contestants.map(([name, each]) => [name, typeof each === 'string' ? each : each.about]),
  );
  return {
    rows: results.flatMap(({ rows }) => rows),
    record: Object.assign({ about }, ...results.map(({ record }) => record)),
  };
}

async function multiply(
  contestants: Contestants,
  sizes: readonly number[],
  rounds: number,
): Promise<BenchResult> {
  const rows: (readonly [string, string])[] = [];
  const squares = [];
  let highest = 0;
  for (const size of sizes) {
    const flops = 2 * size ** 3;
    const runs = Math.max(3, Math.min(MOST_RUNS, Math.round(ROUND_FLOPS / flops)));
    let peak = 0;
    // The clock of a core changes, so its peak is measured close in time to the products that are compared with it.
    const figures = await contest(contestants, { kind: 'matmul', size, runs }, rounds, () => {
      peak = Math.max(peak, wasmPeak() ?? 0);
    });
    highest = Math.max(highest, peak);
    const gigaflops = Object.fromEntries(
      figures.map(([name, figure]) => [
        name,
        'reason' in figure ? figure : round(flops / figure.ms / 1e6, 1),
      ]),
    );
    const [, own] = figures.find(([name]) => name === 'shardwise') ?? [];
    const shareOf = (ms: number): number => round(flops / ms / 1e6 / peak, 3);
    const isKnown = own !== undefined && !('reason' in own) && peak > 0;
    const ofPeak = isKnown ? shareOf(own.ms) : null;
    const ofPeakByCpuTime = isKnown ? shareOf(own.cpuMs) : null;
    squares.push({ size, gigaflops, ofPeak, ofPeakByCpuTime });
    const share = isKnown
      ? `, ${ofPeak?.toFixed(2)} of the registers' peak (${ofPeakByCpuTime?.toFixed(2)} by processor time)`
      : '';
    const texts = Object.entries(gigaflops).map(([name, figure]) =>
      typeof figure === 'number' ? `${name} ${figure.toFixed(0)}` : `${name}: ${figure.reason}`,
    );
    rows.push([`f32 ${size} x ${size} x ${size}, GFLOP/s`, `${texts.join(', ')}${share}`]);
  }
  return { rows, record: { peakGigaflops: round(highest, 1), squares } };
}

async function train(contestants: Contestants, rounds: number): Promise<BenchResult> {
  const rows: (readonly [string, string])[] = [];
  const training = [];
  for (const model of pageModels) {
    const figures = await contest(contestants, { kind: 'train', model, runs: STEPS }, rounds);
    training.push({ model: model.name, steps: Object.fromEntries(figures) });
    const texts = figures.map(([name, figure]) =>
      'reason' in figure
        ? `${name}: ${figure.reason}`
        : `${name} ${figure.ms.toFixed(1)} (${figure.cpuMs.toFixed(1)})`,
    );
    rows.push([`${model.name}, ms a step (of the processor)`, texts.join(', ')]);
  }
  return { rows, record: { training } };
}

/** Lets the contestants take turns. The first round is a warm-up. */
async function contest(
  contestants: Contestants,
  request: PageRequest,
  rounds: number,
  beforeRound: () => void = () => {},
): Promise<(readonly [string, Figure])[]> {
  const times = new Map<string, number[]>();
  const cpuTimes = new Map<string, number[]>();
  const losses = new Map<string, readonly number[]>();
  const reasons = new Map<string, string>();
  for (let index = 0; index <= rounds; index++) {
    beforeRound();
    for (const [name, contestant] of contestants) {
      if (reasons.has(name)) continue;
      const answer = typeof contestant === 'string' ? contestant : await contestant.ask(request);
      if (typeof answer === 'string') reasons.set(name, answer);
      else if ('reason' in answer) reasons.set(name, answer.reason);
      else if (index > 0) {
        times.set(name, [...(times.get(name) ?? []), ...answer.ms]);
        cpuTimes.set(name, [...(cpuTimes.get(name) ?? []), answer.cpuMs]);
      } else losses.set(name, answer.losses);
    }
  }
  return contestants.map(([name]) => {
    const reason = reasons.get(name);
    if (reason !== undefined) return [name, { reason }] as const;
    const sorted = (times.get(name) ?? []).toSorted((a, b) => a - b);
    const place = request.kind === 'matmul' ? 0 : Math.floor(sorted.length / 2);
    const figure = {
      ms: round(sorted[place] ?? Number.NaN, 2),
      cpuMs: round(median(cpuTimes.get(name) ?? []), 2),
      losses: losses.get(name) ?? [],
    };
    return [name, figure] as const;
  });
}
