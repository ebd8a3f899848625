import { autocast, ConfigError, dist, nn, noGrad, type Tensor } from 'shardwise';
import type { GPT } from './model.ts';
import type { Options } from './options.ts';

/** The model as a strategy trains it. Letters: B batch, T tokens, V vocabulary. */
export interface TrainedModel {
  /** The strategy's plan as text, or null if the model is trained as it is. */
  readonly plan: string | null;
  /**
   * Adds the gradients of one of the `accumulate` batches of an update, and returns its part of the mean loss. Only the
   * last of these batches sends gradients to other ranks. Shape: ids i32 [B, T], targets i32 [B, T] -> [].
   */
  backward(ids: Tensor, targets: Tensor, isLast: boolean): Tensor;
  /** The mean loss of the next tokens, outside training. Shape: ids i32 [B, T], targets i32 [B, T] -> []. */
  loss(ids: Tensor, targets: Tensor): Tensor;
  /** The logits of the next token, on every rank, outside training. Shape: ids i32 [B, T] -> [B, T, V]. */
  logits(ids: Tensor): Promise<Tensor>;
}

/**
 * How the ranks are arranged: those of `dp` divide the batch, those of `tp` each layer, those of `pp` the layers, and those
 * of `cp` each sequence.
 */
export function axesOf(options: Options, worldSize: number): { name: string; size: number }[] {
  const { strategy } = options;
  if (strategy === 'none' && worldSize > 1) {
    throw new ConfigError(
      {
        asked: 'training without a strategy',
        found: `${worldSize} ranks that would each train a model of its own`,
        todo: 'Start one rank with --nproc 1, or choose a strategy such as ddp',
      },
      { worldSize },
    );
  }
  const [outer = 'dp', inner] = namesOf(strategy);
  if (inner === undefined) return [{ name: outer, size: worldSize }];
  const size = options['inner-ranks'];
  if (worldSize % size !== 0) {
    throw new ConfigError(
      {
        asked: `the strategy ${strategy} with ${size} ranks for each part of the batch`,
        found: `${worldSize} ranks, which is no multiple of ${size}`,
        todo: `Start a multiple of ${size} ranks with --nproc, or give another number of --inner-ranks`,
      },
      { strategy, worldSize, innerRanks: size },
    );
  }
  return [
    { name: outer, size: worldSize / size },
    { name: inner, size },
  ];
}

function namesOf(strategy: Options['strategy']): readonly string[] {
  switch (strategy) {
    case 'tp':
    case 'pp':
    case 'cp':
      return [strategy];
    case 'tp+fsdp':
      return ['dp', 'tp'];
    case 'pp+ddp':
      return ['dp', 'pp'];
    case 'cp+fsdp':
      return ['dp', 'cp'];
    default:
      return ['dp'];
  }
}

/** Applies the strategy that the options name to the model, on the mesh of `axesOf`. */
export async function applyStrategy(
  model: GPT,
  options: Options,
  precision: 'f32' | 'bf16',
): Promise<TrainedModel> {
  const { strategy } = options;
  const isPipeline = strategy === 'pp' || strategy === 'pp+ddp';
  return isPipeline
    ? applyPipeline(model, options, precision)
    : applyDivision(model, options, precision);
}

/** A pipeline computes the loss on the rank of the last stage, and passes all microbatches through the stages at once. */
async function applyPipeline(
  model: GPT,
  { strategy, microbatches, accumulate }: Options,
  precision: 'f32' | 'bf16',
): Promise<TrainedModel> {
  const stages = dist.pipeline({
    schedule: '1f1b',
    microbatches,
    // A pipeline begins the backward pass itself, so its loss function must return the part of the mean.
    loss: (logits: Tensor, targets: Tensor) => lossOf(logits, targets).mul(1 / accumulate),
    ...(precision === 'bf16' ? { mixedPrecision: { computeDtype: precision } } : {}),
  });
  const whole = strategy === 'pp+ddp' ? dist.compose(stages, dist.ddp()) : stages;
  const parallel = await dist.parallelize(model, whole);
  return {
    plan: dist.explain(parallel.plan),
    backward: (ids, targets, isLast) => {
      const pass = (): Tensor => {
        const loss = parallel.forward(ids, targets);
        loss.backward();
        return loss;
      };
      return isLast ? pass() : parallel.noSync(pass);
    },
    loss: (ids, targets) => noGrad(() => parallel.forward(ids, targets).mul(accumulate)),
    logits: (ids) => dist.onEveryRank(noGrad(() => parallel.forward(ids))),
  };
}

async function applyDivision(
  model: GPT,
  options: Options,
  precision: 'f32' | 'bf16',
): Promise<TrainedModel> {
  const strategy = strategyOf(options);
  const parallel = strategy === null ? null : await dist.parallelize(model, strategy);
  // Losses and draws are computed in f32.
  const logits = (ids: Tensor): Tensor =>
    autocast({ dtype: 'bf16', enabled: precision === 'bf16' }, () =>
      (parallel ?? model).forward(ids),
    ).to('f32');
  return {
    plan: parallel === null ? null : dist.explain(parallel.plan),
    backward: (ids, targets, isLast) => {
      const pass = (): Tensor => {
        const loss = lossOf(logits(ids), targets).mul(1 / options.accumulate);
        // The term that balances experts is a part of the loss that is minimised, but not of the loss that is shown.
        loss.add(nn.auxiliaryLoss(model).mul(1 / options.accumulate)).backward();
        return loss;
      };
      return isLast || parallel === null ? pass() : parallel.noSync(pass);
    },
    loss: (ids, targets) => noGrad(() => lossOf(logits(ids), targets)),
    logits: async (ids) => noGrad(() => logits(ids)),
  };
}

function strategyOf(options: Options): Parameters<typeof dist.planFor>[1] | null {
  const { strategy, heads } = options;
  const divideLayers = () => dist.tensorParallel(dist.styles.gptTensorParallel({ heads }));
  // The model numbers its tokens by arange.
  const cutSequences = () => dist.contextParallel({ arange: 'places' });
  switch (strategy) {
    case 'zero1':
      return dist.zero({ stage: 1 });
    case 'zero2':
      return dist.zero({ stage: 2 });
    case 'zero3':
      return dist.zero({ stage: 3 });
    case 'fsdp':
      return dist.fsdp();
    case 'tp':
      return divideLayers();
    case 'tp+fsdp':
      return dist.compose(divideLayers(), dist.fsdp());
    case 'cp':
      return dist.compose(cutSequences(), dist.ddp({ axis: 'cp' }));
    case 'cp+fsdp':
      return dist.compose(cutSequences(), dist.fsdp({ replicas: 'cp' }));
    case 'experts':
      // The experts are sharded over the ranks that divide the batch.
      return dist.expertParallel({
        axis: 'dp',
        tokens: options['batch-size'] * options['context-length'],
      });
    case 'none':
      return null;
    default:
      return dist.ddp();
  }
}

function lossOf(logits: Tensor, targets: Tensor): Tensor {
  return nn.functional.crossEntropy(logits, targets);
}
