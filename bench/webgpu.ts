import { webgpu as openDevice } from '@shardwise/backend-webgpu';
import { create } from 'webgpu';
import type { Bench } from './bench.ts';
import { chosenOf } from './chosen.ts';
import { gpuPeak } from './gpu-peak.ts';
import { gpuModels } from './page-models.ts';
import { ours } from './page-ours.ts';
import {
  type PageContestant,
  pagePeerNames,
  type PageRequest,
  startPagePeer,
} from './page-peer.ts';
import { countOf } from './rounds.ts';
import { median, round } from './summary.ts';

const SECONDS = 10;
const SIZES = ['256', '512', '1024', '2048', '4096'] as const;
const MOST_RUNS = 1000;
/** How long the runs of a row take together. A device needs some time until it computes at its full speed. */
const ROW_MS = 1500;
/**
 * Short products are awaited together, because waiting takes as long as a product does. TOGETHER_MS is for how long,
 * and MOST_TOGETHER how many at most.
 */
const TOGETHER_MS = 20;
const MOST_TOGETHER = 32;

/** The time of a product or a step, or why it was not run. */
type Figure =
  | { readonly ms: number; readonly runs: number; readonly together: number }
  | { readonly reason: string };

interface Contestant {
  readonly name: string;
  readonly contestant: PageContestant | string;
}

/** Measures what the GPU of this host computes. If the device is a processor that emulates a GPU, its name says so. */
export const webgpu: Bench = {
  about:
    'products of matrices and training on the device of WebGPU that Node finds, against jax-js, TensorFlow.js and multiply-adds in registers',
  flags: {
    seconds: { type: 'string' },
    sizes: { type: 'string' },
    parts: { type: 'string' },
  },
  run: async (values) => {
    const mostMs = 1000 * countOf(values, 'seconds', SECONDS);
    const sizes = chosenOf(values, 'sizes', SIZES).map(Number);
    const parts = chosenOf(values, 'parts', ['squares', 'training'] as const);
    // All devices of this process share one instance of Dawn, as in a page.
    const gpu = create([]);
    Object.defineProperty(globalThis.navigator, 'gpu', { value: gpu });
    const device = await openDevice();
    const contestants: Contestant[] = [
      { name: 'shardwise', contestant: ours(device, device.description) },
    ];
    for (const name of pagePeerNames)
      contestants.push({ name, contestant: await startPagePeer(name, 'webgpu') });
    const rows: (readonly [string, string])[] = [['device', device.description]];
    const peak = parts.includes('squares') ? await gpuPeak(gpu) : undefined;
    if (peak !== undefined)
      rows.push(['multiply-adds in registers', `${peak.gigaflops.toFixed(0)} GFLOP/s`]);

    const squares = [];
    const squareOf = rowsOf(contestants, mostMs);
    for (const size of parts.includes('squares') ? sizes : []) {
      const flops = 2 * size ** 3;
      const figures = await squareOf({ kind: 'matmul', size, runs: MOST_RUNS }, flops);
      const found = figures.map(([name, figure]) => {
        if ('reason' in figure) return [name, figure] as const;
        const gigaflops = round(flops / figure.ms / 1e6, 1);
        const ofPeak =
          peak === undefined ? null : round(flops / figure.ms / 1e6 / peak.gigaflops, 3);
        return [name, { gigaflops, ofPeak, ...figure }] as const;
      });
      squares.push({ size, ...Object.fromEntries(found) });
      const texts = found.map(([name, figure]) =>
        'reason' in figure
          ? `${name}: ${figure.reason}`
          : `${name} ${figure.gigaflops} (${figure.ofPeak?.toFixed(2)} of the registers)`,
      );
      rows.push([`f32 ${size} x ${size} x ${size}, GFLOP/s`, texts.join(', ')]);
    }

    const training = [];
    const stepOf = rowsOf(contestants, mostMs);
    for (const model of parts.includes('training') ? gpuModels : []) {
      const tokens = model.kind === 'gpt' ? model.batch * model.context : model.batch;
      const figures = await stepOf({ kind: 'train', model, runs: MOST_RUNS }, termsOf(model));
      training.push({ model: model.name, ...Object.fromEntries(figures) });
      const unit = model.kind === 'gpt' ? 'tokens' : 'rows';
      const texts = figures.map(([name, figure]) =>
        'reason' in figure
          ? `${name}: ${figure.reason}`
          : `${name} ${figure.ms.toFixed(1)} ms (${Math.round((tokens * 1000) / figure.ms)} ${unit}/s)`,
      );
      rows.push([`${model.name}, a step`, texts.join(', ')]);
    }

    for (const { contestant } of contestants)
      if (typeof contestant !== 'string') await contestant.close();
    const about = Object.fromEntries(
      contestants.map(({ name, contestant }) => [
        name,
        typeof contestant === 'string' ? contestant : contestant.about,
      ]),
    );
    const { adapter, tiles = null } = device;
    device.close();
    return { rows, record: { device: adapter, about, mostMs, tiles, peak, squares, training } };
  },
};

/** Returns the number of products of a step, to compare models with each other. */
function termsOf(model: (typeof gpuModels)[number]): number {
  if (model.kind === 'gpt')
    return model.batch * model.context * model.layers * model.channels ** 2 * 12;
  const products = model.widths.slice(1).map((to, index) => to * (model.widths[index] ?? 0));
  return model.batch * products.reduce((sum, of) => sum + of, 0);
}

/**
 * Returns a function that asks the contestants for one row after the other, of growing `work`. A contestant has
 * `mostMs` for a row. It leaves a row out if the row is expected to take longer, judging by the previous row. The first
 * run of a row compiles, and does not count.
 */
function rowsOf(contestants: readonly Contestant[], mostMs: number) {
  const before = new Map<string, { readonly ms: number; readonly work: number }>();
  const ask = async (
    { name, contestant }: Contestant,
    request: PageRequest,
    work: number,
  ): Promise<Figure> => {
    if (typeof contestant === 'string') return { reason: contestant };
    const known = before.get(name);
    const expectedMs = known === undefined ? 0 : (known.ms * work) / known.work;
    if (expectedMs > mostMs) return { reason: leftOut('is expected to take', expectedMs, mostMs) };
    const start = performance.now();
    const first = await contestant.ask({ ...request, runs: 1 });
    if ('reason' in first) return first;
    const firstMs = performance.now() - start;
    if (firstMs > mostMs) {
      before.set(name, { ms: firstMs, work });
      return { reason: leftOut('took, with compilation,', firstMs, mostMs) };
    }
    const second = await contestant.ask({ ...request, runs: 1 });
    if ('reason' in second) return second;
    const [ms = 0] = second.ms;
    before.set(name, { ms, work });
    const leftMs = mostMs - (performance.now() - start);
    if (ms > leftMs) return { ms: round(ms, 3), runs: 1, together: 1 };
    const isSquare = request.kind === 'matmul';
    const together = isSquare
      ? Math.max(1, Math.min(MOST_TOGETHER, Math.floor(TOGETHER_MS / ms)))
      : 1;
    const answer = await contestant.ask({
      ...request,
      ...(isSquare ? { together } : {}),
      mostMs: Math.min(leftMs, ROW_MS),
    });
    if ('reason' in answer) return answer;
    const best = isSquare ? Math.min(...answer.ms) : median(answer.ms);
    return { ms: round(best / together, 3), runs: answer.ms.length, together };
  };
  return async (request: PageRequest, work: number) => {
    const figures: (readonly [string, Figure])[] = [];
    for (const contestant of contestants)
      figures.push([contestant.name, await ask(contestant, request, work)]);
    return figures;
  };
}

function leftOut(why: string, ms: number, mostMs: number): string {
  return `left out: a run ${why} ${(ms / 1000).toFixed(1)} s, of ${mostMs / 1000} s for a row`;
}
