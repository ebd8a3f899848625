import { type CpuOptions, registerPeak } from '@shardwise/backend-cpu';
import { cpu } from 'shardwise';
import type { Bench, BenchResult } from './bench.ts';
import { bestMs } from './matmul-limit.ts';
import { type MatmulPeer, startMatmulPeer } from './matmul-peer.ts';
import { flopsOf, type MatmulShape, matmulShapes, shapeText } from './matmul-shapes.ts';
import { prepareMatmul } from './prepare-matmul.ts';
import { roundsFlag, roundsOf } from './rounds.ts';
import { median, round } from './summary.ts';
import { UsageError } from './usage-error.ts';

const ROUNDS = 3;
/** The greatest number of runs in a round. Large products have fewer runs, by ROUND_FLOPS. */
const MOST_RUNS = 20;
const ROUND_FLOPS = 2e10;

const dtypes = ['f32', 'bf16'] as const;
type Precision = (typeof dtypes)[number];

interface Figure {
  readonly name: string;
  readonly shape: string;
  readonly dtype: Precision;
  readonly gigaflops: number;
  /** The share of what the core computes in registers. */
  readonly ofPeak: number | null;
  readonly peerGigaflops: number | null;
}

/** Measures products of matrices on one thread. */
export const matmul: Bench = {
  about: 'products of matrices on one thread, against the peak of its registers and PyTorch',
  flags: { ...roundsFlag, sizes: { type: 'string' }, instructions: { type: 'string' } },
  run: async (values) => {
    const shapes = chosen(values['sizes']);
    const rounds = roundsOf(values, ROUNDS);
    const instructions = instructionsOf(values['instructions']);
    const peer = await startMatmulPeer();
    try {
      return await compare(shapes, rounds, instructions, peer);
    } finally {
      await peer?.close();
    }
  },
};

/**
 * Returns the products that `sizes` selects: names of models and sizes of squares, separated by commas. Default: all.
 */
function chosen(sizes: unknown): readonly MatmulShape[] {
  const all = matmulShapes();
  if (typeof sizes !== 'string') return all;
  const names = new Set(sizes.split(','));
  const found = all.filter(
    ({ name, a }) => names.has(name) || (name === 'square' && names.has(String(a[0]))),
  );
  if (found.length > 0) return found;
  throw new UsageError(
    `--sizes is ${JSON.stringify(sizes)}`,
    'Give gpt, gpt-large, bert, square, or sizes of squares from 256 to 4096',
  );
}

type Instructions = NonNullable<CpuOptions['instructions']>;

/** Returns the newest instructions that products use, or the given ones. */
function instructionsOf(given: unknown): Instructions {
  const sets: readonly Instructions[] = ['AMX-BF16', 'AVX512-BF16', 'AVX-512', 'AVX2'];
  const found = sets.find((set) => set === (given ?? sets[0]));
  if (found !== undefined) return found;
  throw new UsageError(`--instructions is ${JSON.stringify(given)}`, `Give ${sets.join(', ')}`);
}

async function compare(
  shapes: readonly MatmulShape[],
  rounds: number,
  instructions: Instructions,
  peer: MatmulPeer | undefined,
): Promise<BenchResult> {
  const device = await cpu({ instructions });
  const figures: Figure[] = [];
  const peaks = new Map<Precision, number>();
  for (const dtype of dtypes) {
    for (const shape of shapes) {
      const flops = flopsOf(shape);
      const runs = Math.max(3, Math.min(MOST_RUNS, Math.round(ROUND_FLOPS / flops)));
      const { run, free } = await prepareMatmul(device, shape, dtype);
      let [own, others] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
      let peak = 0;
      // The clock of a core changes, so its peak is measured close in time to the products that are compared with it.
      for (let index = 0; index < rounds; index++) {
        peak = Math.max(peak, (await registerPeak(dtype, instructions))?.gigaflops ?? 0);
        own = Math.min(own, await bestMs(run, runs));
        if (peer !== undefined) others = Math.min(others, await peer.bestMs(shape, dtype, runs));
      }
      free();
      peaks.set(dtype, Math.max(peak, peaks.get(dtype) ?? 0));
      const rate = (ms: number): number => flops / ms / 1e6;
      figures.push({
        name: shape.name,
        shape: shapeText(shape),
        dtype,
        gigaflops: rate(own),
        ofPeak: peak === 0 ? null : rate(own) / peak,
        peerGigaflops: peer === undefined ? null : rate(others),
      });
    }
  }
  return { rows: rowsOf(figures, peaks, peer), record: recordOf(figures, peaks, peer) };
}

function rowsOf(
  figures: readonly Figure[],
  peaks: ReadonlyMap<Precision, number>,
  peer: MatmulPeer | undefined,
): BenchResult['rows'] {
  const each = figures.map(({ name, shape, dtype, gigaflops, ofPeak, peerGigaflops }) => {
    const peak = ofPeak === null ? '' : `, ${ofPeak.toFixed(2)} of the peak`;
    const other = peerGigaflops === null ? '' : `, PyTorch ${peerGigaflops.toFixed(0)}`;
    return [`${dtype} ${name} ${shape}`, `${gigaflops.toFixed(0)} GFLOP/s${peak}${other}`] as const;
  });
  const totals = dtypes.map((dtype) => {
    const { medianOfPeak, atLeastPeer } = summaryOf(figures, dtype);
    const peak = peaks.get(dtype)?.toFixed(0) ?? '?';
    const wins =
      atLeastPeer === null ? 'PyTorch not measured' : `at least PyTorch's in ${atLeastPeer}`;
    return [
      `${dtype}, registers alone ${peak} GFLOP/s`,
      `median ${medianOfPeak.toFixed(2)} of it; ${wins}`,
    ] as const;
  });
  const version = peer === undefined ? [] : [['PyTorch', peer.about.torch] as const];
  return [...each, ...totals, ...version];
}

function summaryOf(
  figures: readonly Figure[],
  dtype: Precision,
): { readonly medianOfPeak: number; readonly atLeastPeer: string | null } {
  const own = figures.filter((figure) => figure.dtype === dtype);
  const compared = own.filter(({ peerGigaflops }) => peerGigaflops !== null);
  const ahead = compared.filter(
    ({ gigaflops, peerGigaflops }) => gigaflops >= (peerGigaflops ?? 0),
  );
  return {
    medianOfPeak: median(own.map(({ ofPeak }) => ofPeak ?? 0)),
    atLeastPeer: compared.length === 0 ? null : `${ahead.length} of ${compared.length} shapes`,
  };
}

function recordOf(
  figures: readonly Figure[],
  peaks: ReadonlyMap<Precision, number>,
  peer: MatmulPeer | undefined,
): BenchResult['record'] {
  return {
    peer: peer?.about ?? null,
    ...Object.fromEntries(
      dtypes.map((dtype) => [
        dtype,
        { peakGigaflops: round(peaks.get(dtype) ?? 0, 1), ...summaryOf(figures, dtype) },
      ]),
    ),
    shapes: figures.map((figure) => ({
      ...figure,
      gigaflops: round(figure.gigaflops, 1),
      ofPeak: figure.ofPeak === null ? null : round(figure.ofPeak, 3),
      peerGigaflops: figure.peerGigaflops === null ? null : round(figure.peerGigaflops, 1),
    })),
  };
}
