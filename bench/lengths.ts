import { cpu, fromData, manualSeed, nn, optim, profiler, setRank, type Tensor } from 'shardwise';
import { GPT } from '../examples/gpt/model.ts';
import type { Bench, BenchResult } from './bench.ts';
import { median, round } from './summary.ts';
import { workload } from './workload.ts';

const STEPS = 200;
const SHORTEST = 16;
const LONGEST = 512;
/**
 * CONSTANT are the constant lengths to compare with. EXACT are lengths for which plans are also made for one size
 * alone.
 */
const CONSTANT = [64, 128, 256, 512];
const EXACT = [24, 100, 210, 333, 500];
const ROUNDS = 5;

/** Compares sequences of another length in each step with sequences of constant length. */
export const lengths: Bench = {
  about:
    'GPT training on sequences of random lengths, against constant ones and plans for each length',
  run: async (): Promise<BenchResult> => {
    const any = await Lengths.create(true);
    const drawn = draw(STEPS);
    const before = profiler.statistics();
    let [cpuMs, tokens] = [0, 0];
    const inUse: number[] = [];
    for (const length of drawn) {
      cpuMs += await any.step(length);
      tokens += length * workload.batch;
      inUse.push(any.bytesInUse());
    }
    const { plansMade, sizedPlansMade, compileMs } = profiler.statistics();
    const anyMs = await any.msPerToken(EXACT);
    const exactMs = await (await Lengths.create(false)).msPerToken(EXACT);
    const constantMs = await any.msPerToken(CONSTANT);
    const best = Math.min(...constantMs);
    const record = {
      lengths: { from: SHORTEST, to: LONGEST, different: new Set(drawn).size },
      plans: plansMade - before.plansMade,
      sizedPlans: sizedPlansMade - before.sizedPlansMade,
      compileMs: round(compileMs - before.compileMs, 1),
      ratioOfBestConstant: round(cpuMs / tokens / best, 3),
      ratioOfExact: round(median(anyMs.map((ms, index) => ms / (exactMs[index] ?? 0))), 3),
      bytesInUse: { ofHalf: Math.max(...inUse.slice(0, STEPS / 2)), ofAll: Math.max(...inUse) },
      microsecondsPerToken: {
        random: round((1000 * cpuMs) / tokens, 1),
        constant: CONSTANT.map((length, index) => [
          length,
          round(1000 * (constantMs[index] ?? 0), 1),
        ]),
        anyPlan: EXACT.map((length, index) => [length, round(1000 * (anyMs[index] ?? 0), 1)]),
        exactPlan: EXACT.map((length, index) => [length, round(1000 * (exactMs[index] ?? 0), 1)]),
      },
    };
    return {
      rows: [
        [
          `${STEPS} steps of ${record.lengths.different} lengths`,
          `${record.plans} plans, ${record.sizedPlans} of any size`,
        ],
        [
          'time of a token over that in the best constant shape',
          String(record.ratioOfBestConstant),
        ],
        ['and over that with plans for each length', String(record.ratioOfExact)],
        [
          'memory after half of the steps, after all',
          `${record.bytesInUse.ofHalf}, ${record.bytesInUse.ofAll} bytes`,
        ],
      ],
      record,
    };
  },
};

function draw(count: number): readonly number[] {
  let state = 7;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return SHORTEST + ((state >>> 8) % (LONGEST - SHORTEST + 1));
  });
}

class Lengths {
  readonly #model: GPT;
  readonly #optimizer: optim.AdamW;
  readonly #device: Awaited<ReturnType<typeof cpu>>;
  #steps = 0;

  private constructor(device: Awaited<ReturnType<typeof cpu>>) {
    const { layers, heads, width, vocabulary, seed } = workload;
    manualSeed(seed);
    this.#device = device;
    this.#model = new GPT({
      vocabularySize: vocabulary,
      contextLength: LONGEST,
      layers,
      heads,
      channels: width,
    });
    this.#optimizer = new optim.AdamW(this.#model.parameters(), { lr: workload.learningRate });
  }

  /** Without `sized`, the device needs a program for each size. */
  static async create(sized: boolean): Promise<Lengths> {
    const device = await cpu();
    if (!sized) Object.defineProperty(device, 'compileSized', { value: undefined });
    setRank({ device });
    return new Lengths(device);
  }

  bytesInUse(): number {
    return this.#device.usage().bytesInUse;
  }

  /** Returns the milliseconds that a step takes on a core. */
  async step(length: number): Promise<number> {
    const { batch, vocabulary } = workload;
    const number = this.#steps++;
    const ids = (shift: number): Tensor => {
      const data = Int32Array.from(
        { length: batch * length },
        (_, i) => (i * 3 + number + shift) % vocabulary,
      );
      return fromData(data, [batch, length], 'i32');
    };
    const [inputs, targets] = [ids(0), ids(1)];
    const before = process.cpuUsage();
    this.#optimizer.zeroGrad();
    const loss = nn.functional.crossEntropy(this.#model.forward(inputs), targets);
    loss.backward();
    await this.#optimizer.step();
    await loss.item();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  }

  /** Returns the median over rounds for each length. In a round, the lengths take turns. */
  async msPerToken(of: readonly number[]): Promise<readonly number[]> {
    setRank({ device: this.#device });
    const times = of.map((): number[] => []);
    for (let index = 0; index <= ROUNDS; index++) {
      for (const [at, length] of of.entries()) {
        const ms = await this.step(length);
        if (index > 0) times[at]?.push(ms / (length * workload.batch));
      }
    }
    return times.map(median);
  }
}
