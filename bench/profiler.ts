import { cpu, profiler, setRank } from 'shardwise';
import type { Bench } from './bench.ts';
import { precisionFlag, type Precision, precisionOf } from './precision.ts';
import { roundsFlag, roundsOf } from './rounds.ts';
import { median, round } from './summary.ts';
import { buildModel, Training } from './training.ts';
import { workload } from './workload.ts';

/** V8 compiles functions again until about this step. */
const WARM_UP = 48;
/** The steps of one turn, with or without profiler. */
const STEPS = 8;
const ROUNDS = 10;
/** Any peak: it only decides what is written about the steps. */
const peak = { f32: 2e11, half: 4e11, bytesPerSecond: 1e10 };

/** The processor time of a step of 8 rows and of 1 row, with the profiler relative to without it. */
export const profilerCost: Bench = {
  about: 'What the profiler costs: processor time of steps that are recorded, relative to others',
  flags: { ...precisionFlag, ...roundsFlag },
  run: async (values) => {
    const precision = precisionOf(values);
    const rounds = roundsOf(values, ROUNDS);
    setRank({ device: await cpu() });
    const costs: Cost[] = [];
    for (const batch of [workload.batch, 1]) {
      costs.push(await costOf(batch, precision, rounds));
    }
    return {
      rows: costs.flatMap(({ batch, off, on, apart }) => [
        [
          `${batch} rows`,
          `${off.toFixed(1)} ms without, ${on.toFixed(1)} ms with it: ${(on / off).toFixed(3)} times`,
        ],
        [
          `${batch} rows, no profiler at all`,
          `${apart.toFixed(1)} ms: ${(off / apart).toFixed(3)} times`,
        ],
      ]),
      record: {
        precision,
        costs: costs.map(({ batch, off, on, apart }) => ({
          batch,
          offMs: round(off, 2),
          onMs: round(on, 2),
          apartMs: round(apart, 2),
          on: round(on / off, 4),
          off: round(off / apart, 4),
        })),
      },
    };
  },
};

interface Cost {
  readonly batch: number;
  /** Milliseconds of processor time of a step: between recorded steps, in them, and without any profiler. */
  readonly off: number;
  readonly on: number;
  readonly apart: number;
}

async function costOf(batch: number, precision: Precision, rounds: number): Promise<Cost> {
  const make = (): Training => {
    const model = buildModel();
    return new Training(model, model.parameters(), { batch, precision });
  };
  const plain = make();
  await plain.run(WARM_UP);
  const recording = profiler.profile({
    schedule: profiler.schedule({ wait: STEPS, warmup: 0, active: STEPS }),
    peak,
  });
  const profiled = make();
  const turn = async (): Promise<readonly number[]> => {
    const times: number[] = [];
    for (let index = 0; index < STEPS; index++) {
      const [time] = await profiled.run(1);
      times.push(time?.cpuMs ?? 0);
      recording.step();
    }
    return times;
  };
  for (let index = 0; index < WARM_UP / STEPS; index++) await turn();
  const times = { off: [] as number[], on: [] as number[], apart: [] as number[] };
  for (let index = 0; index < rounds; index++) {
    times.off.push(...(await turn()));
    times.on.push(...(await turn()));
    times.apart.push(...(await plain.run(STEPS)).map(({ cpuMs }) => cpuMs));
  }
  await recording.stop();
  return { batch, off: median(times.off), on: median(times.on), apart: median(times.apart) };
}
