import { cpu } from '@shardwise/backend-cpu';
import { createMesh, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import {
  fromData,
  manualSeed,
  nn,
  optim,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  BertForMaskedLM,
  BertForSequenceClassification,
  type EncoderCall,
  type PretrainedModel,
  ResNetForImageClassification,
  RobertaForTokenClassification,
  ViTForImageClassification,
} from '@shardwise/models';
import {
  ddp,
  fsdp,
  parallelize,
  pipeline,
  type StylePlan,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { encoderStyles } from '../../src/encoders/encoder-styles.ts';
import { uniform } from '../golden/formulas.ts';

// Letters: B batch, T tokens.

const [steps, rows, length] = [3, 8, 6];
const text = {
  vocabSize: 24,
  hiddenSize: 16,
  numHiddenLayers: 2,
  numAttentionHeads: 4,
  intermediateSize: 24,
  maxPositionEmbeddings: 8,
  hiddenDropoutProb: 0,
  attentionProbsDropoutProb: 0,
} as const;

interface EncoderCase {
  readonly build: () => PretrainedModel;
  /** The inputs of a step: all rows of its batch. */
  readonly batch: (step: number) => readonly [inputs: Tensor, call: EncoderCall];
  /** Where the second stage of a pipeline begins. */
  readonly cut: string;
  /** Default: 2. Batch norms normalise each microbatch by itself. */
  readonly microbatches?: number;
  readonly styles?: StylePlan;
}

function integers(name: string, below: number, shape: readonly number[]): Int32Array {
  const count = shape.reduce((product, size) => product * size, 1);
  return Int32Array.from(uniform(name, count), (value) => Math.floor((value + 0.5) * below));
}

/** Rows of text of which each third ends with padding. Labels count two tokens of each row. */
function textOf(step: number, labels: (ids: Int32Array) => Tensor): readonly [Tensor, EncoderCall] {
  const isPadding = (i: number): boolean => Math.floor(i / length) % 3 === 2 && i % length > 3;
  const ids = integers(`step ${step}`, text.vocabSize - 4, [rows, length]).map((id, i) =>
    isPadding(i) ? 1 : id + 4,
  );
  const mask = ids.map((_, i) => (isPadding(i) ? 0 : 1));
  const attentionMask = fromData(mask, [rows, length], 'i32');
  return [fromData(ids.slice(), [rows, length], 'i32'), { attentionMask, labels: labels(ids) }];
}

const ofTokens = (classes: number) => (ids: Int32Array) =>
  fromData(
    ids.map((id, i) => ([1, 3].includes(i % length) ? id % classes : -100)),
    [rows, length],
    'i32',
  );
const ofRows = (step: number): Tensor =>
  fromData(integers(`rows ${step}`, 3, [rows]), [rows], 'i32');
const imagesOf = (size: number, step: number): Tensor =>
  fromData(uniform(`pixels ${step}`, rows * 3 * size * size), [rows, 3, size, size], 'f32');
const styles = (base: string, attention = 'self'): StylePlan =>
  encoderStyles(`${base}.encoder.layer.*`, { attention, heads: 4 });

export const models: Readonly<Record<string, EncoderCase>> = {
  'BERT as a masked language model': {
    build: () => new BertForMaskedLM(text),
    batch: (step) => textOf(step, ofTokens(text.vocabSize)),
    cut: 'bert.encoder.layer.1',
    styles: styles('bert'),
  },
  'BERT for rows': {
    build: () => new BertForSequenceClassification({ ...text, numLabels: 3 }),
    batch: (step) => textOf(step, () => ofRows(step)),
    cut: 'bert.encoder.layer.1',
    styles: styles('bert'),
  },
  'RoBERTa for tokens': {
    build: () => new RobertaForTokenClassification({ ...text, numLabels: 3 }),
    batch: (step) => textOf(step, ofTokens(3)),
    cut: 'roberta.encoder.layer.1',
    styles: styles('roberta'),
  },
  'ViT for images': {
    build: () =>
      new ViTForImageClassification({
        hiddenSize: 16,
        numHiddenLayers: 2,
        numAttentionHeads: 4,
        intermediateSize: 24,
        imageSize: 8,
        patchSize: 4,
        numLabels: 3,
      }),
    batch: (step) => [imagesOf(8, step), { labels: ofRows(step) }],
    cut: 'vit.encoder.layer.1',
    styles: styles('vit', 'attention'),
  },
  'ResNet for images': {
    build: () =>
      new ResNetForImageClassification({ embeddingSize: 4, hiddenSizes: [8, 16], depths: [1, 1] }),
    batch: (step) => [imagesOf(16, step), { labels: ofRows(step).remainder(2) }],
    cut: 'resnet.encoder.stages.1',
    microbatches: 1,
  },
};

/** The strategies, each with the mesh axis over which it works. Only the ranks of `dp` divide the batch. */
const strategies = {
  DDP: { axis: 'dp', of: () => ddp() },
  'ZeRO-3': { axis: 'dp', of: () => zero({ stage: 3 }) },
  FSDP: { axis: 'dp', of: () => fsdp() },
  'tensor parallelism': { axis: 'tp', of: ({ styles = {} }) => tensorParallel(styles) },
  'a pipeline': {
    axis: 'pp',
    of: ({ cut, microbatches = 2 }) => pipeline({ cut: [cut], microbatches }),
  },
} as const satisfies Record<string, { axis: string; of: (model: EncoderCase) => Strategy }>;

export type StrategyName = keyof typeof strategies;
export const strategyNames: readonly StrategyName[] = [
  'DDP',
  'ZeRO-3',
  'FSDP',
  'tensor parallelism',
  'a pipeline',
];

export const training = z.object({
  losses: z.array(z.number()),
  /** The state at the end, whole. */
  state: z.record(z.string(), z.array(z.number())),
});
export type Training = z.infer<typeof training>;
export const trainings = z.record(z.string(), training);

/** Trains each model that has a plan for the strategy. The losses of ranks that divide the batch are their own. */
export async function main({
  rank,
  size,
  world,
  data: name,
}: RankContext<ThreadsWorld, StrategyName | 'one rank'>): Promise<z.infer<typeof trainings>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const { axis, of } = name === 'one rank' ? { axis: 'dp', of: null } : strategies[name];
  const mesh = await createMesh(joinThreadsWorld(world, rank), [{ name: axis, size }]);
  setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
  const share = axis === 'dp' ? rows / size : rows;
  const first = axis === 'dp' ? rank * share : 0;
  const found: Record<string, Training> = {};
  for (const [title, model] of Object.entries(models)) {
    if (name === 'tensor parallelism' && model.styles === undefined) continue;
    found[title] = await train(model, of?.(model) ?? null, axis, (x) =>
      x.slice(0, first, first + share),
    );
  }
  return found;
}

async function train(
  { build, batch }: EncoderCase,
  strategy: Strategy | null,
  axis: string,
  own: (x: Tensor) => Tensor,
): Promise<Training> {
  manualSeed(3);
  // Ranks that divide the batch normalise it together.
  const model = axis === 'dp' ? nn.convertSyncBatchNorm(build()) : build();
  const parallel = strategy === null ? model : await parallelize(model, strategy);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    const [inputs, call] = batch(step);
    const part = Object.fromEntries(
      Object.entries(call).map(([key, tensor]: [string, Tensor]) => [key, own(tensor)]),
    );
    const loss = parallel.forward(own(inputs), part);
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  const state = Object.entries(await model.stateDict()).filter(([, { dtype }]) => dtype === 'f32');
  const numbers = state.map(([key, { bytes }]): [string, number[]] => [
    key,
    [...new Float32Array(bytes.slice().buffer)],
  ]);
  return { losses, state: Object.fromEntries(numbers) };
}
