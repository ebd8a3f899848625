import { fromData, manualSeed, nn, optim, type Strategy, type Tensor } from '@shardwise/core';
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
  compose,
  contextParallel,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { uniform } from './golden/formulas.ts';

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
  /** Default: 2. Batch norms normalise each microbatch by itself. */
  readonly microbatches?: number;
  /** Whether ranks can have parts of rows, since each token has a result of its own. */
  readonly isOfTokens?: boolean;
  /** Whether the model has no styles of tensor parallelism. */
  readonly isWhole?: boolean;
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

const models: Readonly<Record<string, EncoderCase>> = {
  'BERT as a masked language model': {
    build: () => new BertForMaskedLM(text),
    batch: (step) => textOf(step, ofTokens(text.vocabSize)),
    isOfTokens: true,
  },
  'BERT for rows': {
    build: () => new BertForSequenceClassification({ ...text, numLabels: 3 }),
    batch: (step) => textOf(step, () => ofRows(step)),
  },
  'RoBERTa for tokens': {
    build: () => new RobertaForTokenClassification({ ...text, numLabels: 3 }),
    batch: (step) => textOf(step, ofTokens(3)),
    isOfTokens: true,
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
  },
  'ResNet for images': {
    build: () =>
      new ResNetForImageClassification({ embeddingSize: 4, hiddenSizes: [8, 16], depths: [1, 1] }),
    batch: (step) => [imagesOf(16, step), { labels: ofRows(step).remainder(2) }],
    microbatches: 1,
    isWhole: true,
  },
};

/** The strategies, each with the mesh axis over which it works. Only the ranks of `dp` divide the batch. */
const strategies = {
  DDP: { axis: 'dp', of: () => ddp() },
  'ZeRO-3': { axis: 'dp', of: () => zero({ stage: 3 }) },
  FSDP: { axis: 'dp', of: () => fsdp() },
  'tensor parallelism': { axis: 'tp', of: () => tensorParallel() },
  'a pipeline': {
    axis: 'pp',
    of: ({ microbatches = 2 }) => pipeline({ microbatches }),
  },
  'a ring of keys': {
    axis: 'cp',
    of: () => compose(contextParallel(), ddp({ axis: 'cp' })),
  },
  'collected keys': {
    axis: 'cp',
    of: () => compose(contextParallel({ method: 'allGather' }), fsdp({ axis: 'cp' })),
  },
  'exchanged heads': {
    axis: 'cp',
    of: () => compose(contextParallel({ method: 'ulysses' }), zero({ stage: 2, axis: 'cp' })),
  },
} as const satisfies Record<string, { axis: string; of: (model: EncoderCase) => Strategy }>;

type StrategyName = keyof typeof strategies;
const strategyNames: readonly StrategyName[] = [
  'DDP',
  'ZeRO-3',
  'FSDP',
  'tensor parallelism',
  'a pipeline',
  'a ring of keys',
  'collected keys',
  'exchanged heads',
];

interface Training {
  losses: number[];
  /** The state at the end, whole. */
  state: Record<string, number[]>;
}
type Trainings = Record<string, Training>;

/** Trains each model that has a plan for the strategy. The losses of ranks that divide the batch are their own. */
async function trainEach(
  { rank, size }: RankInThread,
  name: StrategyName | 'one rank',
  titles: readonly string[],
): Promise<Trainings> {
  const { axis, of } = planOf(name);
  const share = axis === 'dp' ? rows / size : rows;
  const first = axis === 'dp' ? rank * share : 0;
  const found: Record<string, Training> = {};
  for (const [title, model] of Object.entries(models)) {
    if (!titles.includes(title) || !fits(model, axis)) continue;
    found[title] = await train(model, of?.(model) ?? null, axis, (x) =>
      x.slice(0, first, first + share),
    );
  }
  return found;
}

/** Whether a model has a plan for strategies over an axis. */
function fits({ isWhole = false, isOfTokens = false }: EncoderCase, axis: string): boolean {
  if (axis === 'tp') return !isWhole;
  return axis !== 'cp' || isOfTokens;
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

function planOf(name: StrategyName | 'one rank') {
  return name === 'one rank' ? { axis: 'dp', of: null } : strategies[name];
}

function ranksOf(
  size: number,
  name: StrategyName | 'one rank',
  titles: readonly string[],
): Promise<readonly Readonly<Record<string, Training>>[]> {
  const axes = [{ name: planOf(name).axis, size }];
  return onRanks(size, (place) => trainEach(place, name, titles), { axes, ...onCpu });
}

/** Tests encoders under the strategies: all of them under each, or a part. */
export function testEncodersOnRanks({ hasAll }: { readonly hasAll: boolean }): void {
  const rows = strategyNames.map((name, row) => [name, row] as const);

  describe('an encoder on two ranks', () => {
    let alone: readonly Readonly<Record<string, Training>>[] = [];

    beforeAll(async () => {
      alone = await ranksOf(1, 'one rank', Object.keys(models));
    });

    test.each(rows)('trains under %s as on one rank', async (strategy, row) => {
      const [expected = {}] = alone;
      const all = Object.keys(models);
      const titles = hasAll ? all : someForRow({ row, rows: rows.length }, all, 2);
      const ranks = await ranksOf(2, strategy, titles);
      const isDivided = ['DDP', 'ZeRO-3', 'FSDP'].includes(strategy);
      for (const title of titles) {
        const { losses, state } = expected[title] ?? expect.fail(title);
        const found = ranks.flatMap(({ [title]: training }) => training ?? []);
        if (found.length === 0) {
          const model = models[title] ?? expect.fail(title);
          expect(fits(model, planOf(strategy).axis), title).toBe(false);
          continue;
        }
        for (const [step, loss] of losses.entries()) {
          const each = found.map((training) => training.losses[step] ?? Number.NaN);
          const mean = each.reduce((sum, value) => sum + value, 0) / each.length;
          expect(isDivided ? mean : each[0], `${title}, step ${step}`).toBeCloseTo(loss, 5);
        }
        for (const training of found) {
          expect(Object.keys(training.state)).toEqual(Object.keys(state));
          for (const [name, values] of Object.entries(state)) {
            assertAllclose(training.state[name] ?? [], values, { rtol: 1e-4, atol: 1e-5 });
          }
        }
      }
    });

    test('refuses to cut rows that one token or one image stands for, on each rank', async () => {
      const mixing = Object.entries(models).filter(([, { isOfTokens }]) => isOfTokens !== true);
      const refused = await onRanks(
        2,
        async () => {
          const errors: string[] = [];
          for (const [, { build }] of mixing) {
            try {
              await parallelize(build(), compose(contextParallel(), ddp({ axis: 'cp' })));
            } catch (error) {
              errors.push(String(error));
            }
          }
          return errors;
        },
        { axes: [{ name: 'cp', size: 2 }], ...onCpu },
      );
      for (const errors of refused) {
        expect(errors).toHaveLength(mixing.length);
        for (const error of errors) {
          expect(error).toMatch(/does not say how its sequences can be cut: .* may mix tokens/);
        }
      }
    });
  });
}
