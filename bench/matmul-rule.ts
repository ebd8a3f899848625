import type { DeviceBuffer, Executable, Program, SizedProgram } from '@shardwise/core/spec';
import { cpu } from 'shardwise';
import type { Bench } from './bench.ts';
import { bestMs } from './matmul-limit.ts';
import {
  elementCount,
  flopsOf,
  type Matmul,
  matmulShapes,
  outputShape,
  shapeText,
  thinMatmulShapes,
} from './matmul-shapes.ts';
import { roundsFlag, roundsOf } from './rounds.ts';
import { median, round } from './summary.ts';

const ROUNDS = 3;
const ROUND_FLOPS = 1e10;
const [FEWEST_RUNS, MOST_RUNS] = [3, 40];
const enough = 0.97;

type Device = Awaited<ReturnType<typeof cpu>>;

/** The milliseconds of one product of f32, as the best of all runs. */
interface Times {
  readonly shape: string;
  readonly byRule: number;
  readonly byMachineCode: number;
  readonly byOnnxRuntime: number;
}

/** Returns the time of the faster way, relative to that of the way that the rule chose. */
const ofBest = ({ byRule, byMachineCode, byOnnxRuntime }: Times): number =>
  Math.min(byMachineCode, byOnnxRuntime) / byRule;

/** Tests whether the rule that chooses how to compute a product of f32 chooses the faster way. */
export const matmulRule: Bench = {
  about:
    'products of f32 as the rule computes them, against machine code alone and ONNX Runtime alone',
  flags: { ...roundsFlag, thin: { type: 'boolean' } },
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const devices = { own: await cpu(), onnxRuntime: await cpu({ products: 'onnxruntime' }) };
    const shapes = values['thin'] === true ? thinMatmulShapes() : matmulShapes();
    const all: Times[] = [];
    for (const shape of shapes) all.push(await timesOf(shape, rounds, devices));
    const shares = all.map(ofBest);
    const atLeast = shares.filter((share) => share >= enough).length;
    return {
      rows: [
        ...all.map((times) => [times.shape, textOf(times)] as const),
        [
          'the rule',
          `at least ${enough} of the faster one for ${atLeast} of ${all.length} shapes, at least ${Math.min(...shares).toFixed(2)} for all, the median ${median(shares).toFixed(2)}`,
        ],
      ],
      record: {
        atLeast: round(Math.min(...shares), 3),
        enough: atLeast,
        shapes: all.map((times) => ({ ...times, ofBest: round(ofBest(times), 3) })),
      },
    };
  },
};

function textOf(times: Times): string {
  const { byRule, byMachineCode, byOnnxRuntime } = times;
  const ms = (of: number): string => `${of.toFixed(4)} ms`;
  return `${ms(byRule)}, machine code ${ms(byMachineCode)}, ONNX Runtime ${ms(byOnnxRuntime)}: ${ofBest(times).toFixed(2)}`;
}

async function timesOf(
  matmul: Matmul,
  rounds: number,
  { own, onnxRuntime }: { readonly own: Device; readonly onnxRuntime: Device },
): Promise<Times> {
  const program = programOf(matmul);
  const dim = matmul.a.length - (matmul.transposeA ? 1 : 2);
  const rows = matmul.a[dim] ?? 1;
  // Machine code computes all products whose sizes vary.
  const sized: SizedProgram = {
    symbols: [{ max: 2 * rows, seen: rows, spacing: 1 }],
    at: ([size = rows]) => programOf({ ...matmul, a: matmul.a.with(dim, size) }),
  };
  const machineCode = await own.compileSized(sized);
  if (machineCode === undefined) throw new Error('a product whose sizes vary does not compile');
  const runs = [
    running(own, await own.compile(program), matmul, []),
    running(own, machineCode, matmul, [rows]),
    running(onnxRuntime, await onnxRuntime.compile(program), matmul, []),
  ];
  const perRound = Math.round(ROUND_FLOPS / flopsOf(matmul));
  const count = Math.max(FEWEST_RUNS, Math.min(MOST_RUNS, perRound));
  const best = runs.map(() => Number.POSITIVE_INFINITY);
  for (let index = 0; index < rounds; index++) {
    for (const [at, { run }] of runs.entries()) {
      best[at] = Math.min(best[at] ?? Number.NaN, await bestMs(run, count));
    }
  }
  for (const { free } of runs) free();
  const [byRule = Number.NaN, byMachineCode = Number.NaN, byOnnxRuntime = Number.NaN] = best;
  return { shape: shapeText(matmul), byRule, byMachineCode, byOnnxRuntime };
}

function programOf({ a, b, transposeA, transposeB, ...rest }: Matmul): Program {
  const shape = outputShape({ a, b, transposeA, transposeB, ...rest });
  const dtype = 'f32';
  const params = { transposeA, transposeB };
  return {
    inputs: [a, b].map((of) => ({ shape: of, dtype })),
    instructions: [{ op: 'matmul', params, inputs: [0, 1], shape, dtype }],
    outputs: [2],
    updates: [],
  };
}

/** Prepares runs of an executable on its own memory. */
function running(
  device: Device,
  executable: Executable,
  matmul: Matmul,
  sizes: readonly number[],
): { readonly run: () => Promise<void>; readonly free: () => void } {
  const bufferOf = (shape: readonly number[]): DeviceBuffer => {
    const buffer = device.alloc(4 * elementCount(shape));
    const values = Float32Array.from({ length: elementCount(shape) }, (_, index) => index % 7);
    device.write(buffer, new Uint8Array(values.buffer));
    return buffer;
  };
  const inputs = [matmul.a, matmul.b].map(bufferOf);
  const outputs = [bufferOf(outputShape(matmul))];
  return {
    run: () => executable.run(inputs, outputs, { sizes }),
    free: () => {
      executable.dispose();
      for (const buffer of [...inputs, ...outputs]) device.free(buffer);
    },
  };
}
