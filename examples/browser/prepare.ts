import { dist, nn, noGrad, type Tensor } from 'shardwise/browser';
import { GPT } from '../gpt/model.ts';
import { batchSize, contextLength, type Settings, sizes, type StrategyName } from './settings.ts';

/** How a model is trained and used, whatever the strategy is. Letters: B windows, T bytes, V the 256 bytes. */
export interface Training {
  /** The model as checkpoints store it, whatever the strategy is. */
  readonly model: GPT;
  readonly parameters: readonly nn.Parameter[];
  /** The windows of an update that this rank gets. */
  readonly rows: { readonly from: number; readonly to: number };
  /** The mean loss of this rank's windows. Shape: x, y i32 [B, T] -> []. */
  readonly loss: (x: Tensor, y: Tensor) => Tensor;
  /** The logits of the next bytes. Shape: ids i32 [1, T] -> [1, T, V]. */
  readonly logits: (ids: Tensor) => Promise<Tensor>;
}

/** Shape: logits [B, T, V], y i32 [B, T] -> []. */
function crossEntropy(logits: Tensor, y: Tensor): Tensor {
  return nn.functional.crossEntropy(logits.flatten(0, 1), y.flatten());
}

/**
 * Makes the model and applies the strategy. Before the call, the random numbers must be the same on every rank.
 * parallelize then gives each rank its part.
 */
export async function prepare(
  { strategy, size }: Settings,
  rank: number,
  worldSize: number,
): Promise<Training> {
  const model = new GPT({ vocabularySize: 256, contextLength, ...sizes[size] });
  const all = { from: 0, to: batchSize };
  if (worldSize === 1) {
    return {
      model,
      parameters: model.parameters(),
      rows: all,
      loss: (x, y) => crossEntropy(model.forward(x), y),
      logits: async (ids) => noGrad(() => model.forward(ids)),
    };
  }
  if (strategy === 'pipeline') {
    const blocks = sizes[size].layers;
    const cut = Array.from({ length: worldSize - 1 }, (_, stage) => {
      return `blocks.${Math.round(((stage + 1) * blocks) / worldSize)}`;
    });
    const stages = dist.pipeline({
      axis: 'dp',
      schedule: '1f1b',
      microbatches: 4,
      cut,
      loss: crossEntropy,
    });
    const parallel = await dist.parallelize(model, stages);
    return {
      model,
      parameters: parallel.module.parameters(),
      rows: all,
      loss: (x, y) => parallel.forward(x, y),
      logits: (ids) => dist.onEveryRank(noGrad(() => parallel.forward(ids))),
    };
  }
  const share = batchSize / worldSize;
  const isWhole = strategy === 'tensor parallel';
  const parallel = await dist.parallelize(model, strategies[strategy](sizes[size].heads));
  return {
    model,
    parameters: model.parameters(),
    rows: isWhole ? all : { from: rank * share, to: (rank + 1) * share },
    loss: (x, y) => crossEntropy(parallel.forward(x), y),
    logits: async (ids) => noGrad(() => parallel.forward(ids)),
  };
}

const strategies = {
  ddp: () => dist.ddp(),
  'zero 1': () => dist.zero({ stage: 1 }),
  'zero 2': () => dist.zero({ stage: 2 }),
  fsdp: () => dist.fsdp(),
  'tensor parallel': (heads) =>
    dist.tensorParallel(dist.styles.gptTensorParallel({ heads }), { axis: 'dp' }),
} satisfies Record<Exclude<StrategyName, 'pipeline'>, (heads: number) => dist.Strategy>;
