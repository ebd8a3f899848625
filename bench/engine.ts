import { deepspeed } from '@shardwise/compat';
import { dist, init, manualSeed, nn, ones, optim, type RankContext, type Tensor } from 'shardwise';
import type { Bench } from './bench.ts';
import { median, round } from './summary.ts';
import { buildModel } from './training.ts';
import { batchOf, workload } from './workload.ts';

/** Steps until V8 no longer compiles, and the pairs of steps after them. */
const WARM_UP = 60;
const PAIRS = 60;
/** A step of the small network takes a fraction of a millisecond, so that what an engine adds is a large part of it. */
const SMALL_WARM_UP = 3000;
const SMALL_PAIRS = 5000;
const CLIPPING = 1;
const settings = { lr: workload.learningRate, weightDecay: workload.weightDecay };

/** Takes a step, and reads its loss. */
type Step = (step: number) => Promise<void>;

/** Measures what the engine of DeepSpeed's configurations costs beside the words that it stands for. */
export const engine: Bench = {
  about: "What the engine of DeepSpeed's configurations costs beside the library's own words",
  run: async () => {
    const context = await init();
    const gpt = await pairsOf(context, WARM_UP, PAIRS, buildModel, (model, step) => {
      const { inputs, targets } = batchOf(step);
      return nn.functional.crossEntropy(model(inputs), targets);
    });
    const small = await pairsOf(context, SMALL_WARM_UP, SMALL_PAIRS, smallNetwork, (model, step) =>
      model(ones([4, 8]).mul(step % 7))
        .square()
        .mean(),
    );
    await context.close();
    // The engine does the same for each of them: its cost does not depend on the model.
    const share = small.differenceUs / 1000 / gpt.wordsCpuMs;
    const percent = (value: number): string => `${(100 * value).toFixed(2)} %`;
    return {
      rows: [
        ['a step of the GPT in words', `${gpt.wordsCpuMs.toFixed(1)} ms of processor time`],
        ['by the engine, processor time', percent(gpt.cpuRatio - 1)],
        ['by the engine, wall clock', percent(gpt.wallRatio - 1)],
        ['what the engine adds to a step', `${small.differenceUs.toFixed(0)} µs of processor time`],
        ['relative to the step of the GPT', percent(share)],
      ],
      record: { gpt, small, share: round(share, 5) },
    };
  },
};

function smallNetwork(): nn.Sequential {
  manualSeed(1);
  return new nn.Sequential(new nn.Linear(8, 8), new nn.Tanh(), new nn.Linear(8, 1));
}

interface Pairs {
  readonly cpuRatio: number;
  readonly wallRatio: number;
  readonly wordsCpuMs: number;
  /** The median of the differences of processor time in a pair. */
  readonly differenceUs: number;
}

type Pass = (input: Tensor) => Tensor;
type Network = nn.Module & { forward(input: Tensor): Tensor };

/** Trains two equal models in turns, and takes medians over pairs of steps, whose order changes. */
async function pairsOf(
  context: RankContext,
  warmUp: number,
  pairs: number,
  make: () => Network,
  lossOf: (model: Pass, step: number) => Tensor,
): Promise<Pairs> {
  const byEngine = await engineStep(context, make(), lossOf);
  const byWords = await wordsStep(make(), lossOf);
  const times = { engine: [] as number[], words: [] as number[] };
  const cpu = { engine: [] as number[], words: [] as number[] };
  for (let step = 0; step < warmUp + pairs; step++) {
    const order = step % 2 === 0 ? (['engine', 'words'] as const) : (['words', 'engine'] as const);
    for (const name of order) {
      const before = process.cpuUsage();
      const start = performance.now();
      await (name === 'engine' ? byEngine : byWords)(step);
      const ms = performance.now() - start;
      const { user, system } = process.cpuUsage(before);
      if (step < warmUp) continue;
      times[name].push(ms);
      cpu[name].push((user + system) / 1000);
    }
  }
  const ratio = (of: typeof cpu): number =>
    median(of.engine.map((value, index) => value / (of.words[index] ?? Number.NaN)));
  const differences = cpu.engine.map((value, index) => value - (cpu.words[index] ?? Number.NaN));
  return {
    cpuRatio: round(ratio(cpu), 4),
    wallRatio: round(ratio(times), 4),
    wordsCpuMs: round(median(cpu.words), 3),
    differenceUs: round(1000 * median(differences), 1),
  };
}

async function engineStep(
  context: RankContext,
  model: Network,
  lossOf: (model: Pass, step: number) => Tensor,
): Promise<Step> {
  const { engine: own } = await deepspeed.initialize({
    model,
    config: {
      train_micro_batch_size_per_gpu: workload.batch,
      gradient_clipping: CLIPPING,
      optimizer: { type: 'AdamW', params: { lr: settings.lr, weight_decay: settings.weightDecay } },
    },
    context,
  });
  return async (step) => {
    const loss = lossOf((input) => own.forward(input), step);
    own.backward(loss);
    await own.step();
    await loss.item();
  };
}

async function wordsStep(
  model: Network,
  lossOf: (model: Pass, step: number) => Tensor,
): Promise<Step> {
  const parallel = await dist.parallelize(model, dist.ddp());
  const optimizer = new optim.AdamW(model.parameters(), settings);
  return async (step) => {
    const loss = lossOf((input) => parallel.forward(input), step);
    loss.backward();
    optim.clipGradNorm(model.parameters(), CLIPPING);
    await optimizer.step();
    optimizer.zeroGrad();
    await loss.item();
  };
}
