import { availableParallelism } from 'node:os';
import type { DeviceBuffer, Program } from '@shardwise/core/spec';
import { cpu } from 'shardwise';
import type { Bench } from './bench.ts';
import { countOf, roundsFlag, roundsOf } from './rounds.ts';
import { median, round } from './summary.ts';

const ROUNDS = 3;
/** The rows of a step of as many sequences. */
const rowCounts = [1, 2, 4, 6, 8, 16, 32];
/** Weights together have more bytes than caches. */
const ALL_BYTES = 160 * 2 ** 20;

/** A weight. `transposed`: it lies as [out, in], as that of a Linear. Otherwise as [in, out], as that of a Conv1D. */
interface Weight {
  readonly name: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly transposed: boolean;
}

/** The weights of SmolLM2-135M, and of GPT-2 with 124 million parameters. */
const weights: readonly Weight[] = [
  { name: 'SmolLM2 q, o', inputs: 576, outputs: 576, transposed: true },
  { name: 'SmolLM2 gate, up', inputs: 576, outputs: 1536, transposed: true },
  { name: 'SmolLM2 down', inputs: 1536, outputs: 576, transposed: true },
  { name: 'SmolLM2 head', inputs: 576, outputs: 49_152, transposed: true },
  { name: 'GPT-2 qkv', inputs: 768, outputs: 2304, transposed: false },
  { name: 'GPT-2 up', inputs: 768, outputs: 3072, transposed: false },
  { name: 'GPT-2 down', inputs: 3072, outputs: 768, transposed: false },
  { name: 'GPT-2 head', inputs: 768, outputs: 50_257, transposed: true },
];

type Device = Awaited<ReturnType<typeof cpu>>;

/** Measures how fast products of few rows read weights, beside a loop that only reads them. */
export const matmulRows: Bench = {
  about:
    'GB/s of weights in products of few rows, as in decoding, beside a loop that only reads them',
  flags: { ...roundsFlag, threads: { type: 'string' } },
  run: async (values) => {
    const threads = countOf(values, 'threads', availableParallelism());
    const rounds = roundsOf(values, ROUNDS);
    const device = await cpu({ threads, batchInvariant: true });
    const figures: { name: string; read: number; products: readonly number[] }[] = [];
    for (const weight of weights) {
      const figure = await figureOf(device, weight, rounds);
      figures.push({ name: weight.name, ...figure });
    }
    return {
      rows: [
        ['rows', rowCounts.join(', ')],
        ...figures.map(
          ({ name, read, products }) =>
            [
              name,
              `${products.map((each) => each.toFixed(1)).join(', ')} GB/s; a loop of one thread that reads it ${read.toFixed(1)}`,
            ] as const,
        ),
      ],
      record: {
        threads,
        rowCounts,
        weights: figures.map(({ name, read, products }) => ({
          name,
          read: round(read, 2),
          products: products.map((each) => round(each, 2)),
        })),
      },
    };
  },
};

async function figureOf(
  device: Device,
  { inputs, outputs, transposed }: Weight,
  rounds: number,
): Promise<{ readonly read: number; readonly products: readonly number[] }> {
  const shape = transposed ? [outputs, inputs] : [inputs, outputs];
  const bytes = 4 * inputs * outputs;
  const most = Math.max(...rowCounts);
  const bufferOf = (count: number): DeviceBuffer => {
    const buffer = device.alloc(4 * count);
    const values = new Float32Array(count).fill(0.5);
    device.write(buffer, new Uint8Array(values.buffer));
    return buffer;
  };
  const all = Array.from({ length: Math.ceil(ALL_BYTES / bytes) }, () => bufferOf(bytes / 4));
  const [x, y, sum] = [bufferOf(most * inputs), bufferOf(most * outputs), bufferOf(1)];
  const reading = await device.compile(sumOf(shape));
  const products = await Promise.all(
    rowCounts.map(async (rows) => {
      const executable = await device.compile(productOf(rows, inputs, outputs, transposed));
      const [left, result] = [
        x.subBuffer(0, 4 * rows * inputs),
        y.subBuffer(0, 4 * rows * outputs),
      ];
      return { executable, run: (of: DeviceBuffer) => executable.run([left, of], [result]) };
    }),
  );
  const rateOf = async (run: (of: DeviceBuffer) => Promise<void>): Promise<number> => {
    const start = performance.now();
    for (const each of all) await run(each);
    return (all.length * bytes) / (performance.now() - start) / 1e6;
  };
  const rates = [...products.map((): number[] => []), [] as number[]];
  const runs = [...products.map(({ run }) => run), (of: DeviceBuffer) => reading.run([of], [sum])];
  // The first round links.
  for (let index = 0; index <= rounds; index++) {
    for (const [at, run] of runs.entries()) {
      const rate = await rateOf(run);
      if (index > 0) rates[at]?.push(rate);
    }
  }
  reading.dispose();
  for (const { executable } of products) executable.dispose();
  for (const buffer of [...all, x, y, sum]) device.free(buffer);
  const medians = rates.map(median);
  return { read: medians.at(-1) ?? Number.NaN, products: medians.slice(0, -1) };
}

function sumOf(shape: readonly number[]): Program {
  const dtype = 'f32';
  return {
    inputs: [{ shape, dtype }],
    instructions: [{ op: 'sum', params: { dims: [0, 1] }, inputs: [0], shape: [1, 1], dtype }],
    outputs: [1],
    updates: [],
  };
}

function productOf(rows: number, inputs: number, outputs: number, transposeB: boolean): Program {
  const dtype = 'f32';
  const [a, b] = [[rows, inputs], transposeB ? [outputs, inputs] : [inputs, outputs]];
  const shape = [rows, outputs];
  const params = { transposeA: false, transposeB };
  return {
    inputs: [a, b].map((each) => ({ shape: each, dtype })),
    instructions: [{ op: 'matmul', params, inputs: [0, 1], shape, dtype }],
    outputs: [2],
    updates: [],
  };
}
