import { wasm } from '@shardwise/backend-cpu/wasm';
import type { Bench } from './bench.ts';
import { bestMs } from './matmul-limit.ts';
import { flopsOf, matmulShapes } from './matmul-shapes.ts';
import { prepareMatmul } from './prepare-matmul.ts';
import { roundsFlag, roundsOf } from './rounds.ts';
import { round } from './summary.ts';
import { wasmPeak } from './wasm-peak.ts';

const ROUNDS = 3;
const MOST_RUNS = 20;
const ROUND_FLOPS = 2e10;
/** Rows of the squares that peers in pages are compared on. */
const MOST_ROWS = 2048;

/** What a page has without a GPU: products by WebAssembly, in the engine that runs this. */
export const page: Bench = {
  about:
    'products of matrices by WebAssembly on one thread, against a loop of multiply-adds in registers',
  flags: roundsFlag,
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const device = await wasm();
    const shapes = matmulShapes().filter(
      ({ name, a: [rows = 0] }) => name === 'square' && rows <= MOST_ROWS,
    );
    const figures: { size: number; gigaflops: number; ofPeak: number | null }[] = [];
    let highest = 0;
    for (const shape of shapes) {
      const flops = flopsOf(shape);
      const runs = Math.max(3, Math.min(MOST_RUNS, Math.round(ROUND_FLOPS / flops)));
      const { run, free } = await prepareMatmul(device, shape, 'f32');
      let [ms, peak] = [Number.POSITIVE_INFINITY, 0];
      // The clock of a core changes: its peak is measured beside what is compared with it.
      for (let index = 0; index < rounds; index++) {
        peak = Math.max(peak, wasmPeak() ?? 0);
        ms = Math.min(ms, await bestMs(run, runs));
      }
      free();
      highest = Math.max(highest, peak);
      const gigaflops = flops / ms / 1e6;
      figures.push({
        size: shape.a[0] ?? 0,
        gigaflops: round(gigaflops, 1),
        ofPeak: peak === 0 ? null : round(gigaflops / peak, 3),
      });
    }
    const rows = figures.map(({ size, gigaflops, ofPeak }) => {
      const share = ofPeak === null ? '' : `, ${ofPeak.toFixed(2)} of the registers' peak`;
      return [
        `f32 ${size} x ${size} x ${size}`,
        `${gigaflops.toFixed(0)} GFLOP/s${share}`,
      ] as const;
    });
    return { rows, record: { peakGigaflops: round(highest, 1), squares: figures } };
  },
};
