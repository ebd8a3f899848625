/**
 * What devices hold when a transformer trains in three dimensions: stages of layers (pp), parts of each layer (tp), and
 * shares of the batch (dp) with ZeRO-1. A plan needs the shapes of parameters, and no devices:
 *
 *   node examples/three-dimensions/layouts.ts
 */
import { dist } from 'shardwise';

type Model = Parameters<dist.Strategy['plan']>[0];

/** Letters: C channels, V vocabulary. */
interface Transformer {
  readonly layers: number;
  readonly channels: number;
  readonly heads: number;
  readonly vocabularySize: number;
}

interface Run {
  readonly title: string;
  readonly model: Transformer;
  /** The number of ranks of each axis. Neighbours on the last axis are neighbours on a host. */
  readonly ranks: { readonly pp: number; readonly dp: number; readonly tp: number };
  /** The block with which each stage but the first one begins. */
  readonly firstBlocks: readonly number[];
  readonly microbatches: number;
}

const runs: readonly Run[] = [
  {
    // Source: Microsoft Research 2020, "DeepSpeed: Extreme-scale model training for everyone".
    title: '32 devices: 4 stages × 2 shares of the batch × 4 parts of each layer',
    model: { layers: 24, channels: 2048, heads: 16, vocabularySize: 50_304 },
    ranks: { pp: 4, dp: 2, tp: 4 },
    firstBlocks: [6, 12, 18],
    microbatches: 16,
  },
  {
    // Source: Le Scao et al. 2022, "BLOOM". The embedding counts as a layer, so the first and the last stage have five.
    title: "BLOOM's 384 devices: 12 stages × 8 shares of the batch × 4 parts of each layer",
    model: { layers: 70, channels: 14_336, heads: 112, vocabularySize: 250_880 },
    ranks: { pp: 12, dp: 8, tp: 4 },
    firstBlocks: Array.from({ length: 11 }, (_, stage) => 5 + 6 * stage),
    microbatches: 128,
  },
];

for (const run of runs) print(run);

function print({ title, model, ranks, firstBlocks, microbatches }: Run): void {
  const strategy = dist.compose(
    dist.tensorParallel(dist.styles.gptTensorParallel({ heads: model.heads })),
    dist.pipeline({
      schedule: '1f1b',
      microbatches,
      cut: firstBlocks.map((block) => `blocks.${block}`),
    }),
    dist.zero({ stage: 1 }),
  );
  const axes = Object.entries(ranks).map(([name, size]) => ({ name, size }));
  const plan = strategy.plan(specificationOf(model), axes);
  const elements = plan.parameters.reduce((sum, { shape }) => sum + product(shape), 0);
  console.log(`${title}\n${(elements / 1e9).toFixed(2)} billion parameters in f32, AdamW\n`);
  console.log(
    'stage  parameters of all its devices  bytes of a device: parameters, gradients, states',
  );
  for (let stage = 0; stage < ranks.pp; stage++) {
    const parameters = plan.parameters.filter(({ parameter }) => parameter.only?.rank === stage);
    const own = parameters.reduce((sum, { shape }) => sum + product(shape), 0);
    const memory = dist.planMemory({ ...plan, parameters });
    const bytes = [memory.parameterBytes, memory.gradientBytes, memory.optimizerBytes];
    const columns = bytes.map((each) => `${(each / 2 ** 30).toFixed(2)} GiB`).join(', ');
    console.log(`${String(stage).padStart(5)}  ${String(own).padStart(29)}  ${columns}`);
  }
  const schedule = dist.schedules.pipelineSchedule('1f1b', {
    ranks: ranks.pp,
    stagesPerRank: 1,
    microbatches,
  });
  console.log(`\n${dist.schedules.explainSchedule(schedule)}\n`);
}

/**
 * Returns the parameters of a GPT as in examples/gpt/model.ts, but without positions. Its head has the embedding's
 * weight.
 */
function specificationOf({ layers, channels: C, vocabularySize: V }: Transformer): Model {
  const blocks = Array.from({ length: layers }, (_, index) => `blocks.${index}`);
  const shapes: readonly (readonly [name: string, shape: readonly number[]])[] = [
    ['tokens.weight', [V, C]],
    ...blocks.flatMap((block) => [
      ...normOf(`${block}.norm1`, C),
      ...linearOf(`${block}.attention.qkv`, C, 3 * C),
      ...linearOf(`${block}.attention.projection`, C, C),
      ...normOf(`${block}.norm2`, C),
      ...linearOf(`${block}.up`, C, 4 * C),
      ...linearOf(`${block}.down`, 4 * C, C),
    ]),
    ...normOf('norm', C),
  ];
  return {
    parameters: shapes.map(([name, shape]) => ({
      name,
      shape,
      dtype: 'f32',
      requiresGrad: true,
      names: name === 'tokens.weight' ? [name, 'head.weight'] : [name],
    })),
  };
}

function linearOf(name: string, inputs: number, outputs: number) {
  return [
    [`${name}.weight`, [outputs, inputs]],
    [`${name}.bias`, [outputs]],
  ] as const;
}

function normOf(name: string, width: number) {
  return [
    [`${name}.weight`, [width]],
    [`${name}.bias`, [width]],
  ] as const;
}

function product(shape: readonly number[]): number {
  return shape.reduce((size, dim) => size * dim, 1);
}
