import {
  allGather,
  allReduce,
  axisOf,
  checkOptions,
  ConfigError,
  currentSession,
  elementCount,
  formatShape,
  full,
  indicesInRange,
  noGrad,
  option,
  type OptionRules,
  sameShape,
  ShapeError,
  stack,
  type Tensor,
  widened,
} from '@shardwise/core/extend';

/** Options of `vocabParallelCrossEntropy`. */
export interface VocabParallelCrossEntropyOptions {
  /** The mesh axis whose ranks have parts of the vocabulary. Default: `tp`. */
  readonly axis?: string;
  /** How the losses are reduced. Default: the mean over the targets that are not ignored. */
  readonly reduction?: 'mean' | 'sum' | 'none';
  /** Targets of this value do not count. Default: -100. */
  readonly ignoreIndex?: number;
  /**
   * The share of the target's probability that is distributed over all classes, as in functional.crossEntropy.
   * A `label_smoothing` a of Megatron is a · V / (V - 1) here. Default: 0.
   */
  readonly labelSmoothing?: number;
}

const vocabParallelCrossEntropyRules: OptionRules<VocabParallelCrossEntropyOptions> = {
  axis: option.axisName,
  reduction: option.oneOf('mean', 'sum', 'none'),
  ignoreIndex: option.integer(-(2 ** 31)),
  labelSmoothing: option.fraction,
};

/**
 * The cross-entropy of logits of which each rank has a part of the classes, in rank order (Megatron's
 * vocab_parallel_cross_entropy). Logits are never gathered: the ranks exchange one maximum for each row, and
 * one message with the sum of exponentials and the target's logit of each row. The result is the same on all
 * ranks.
 * Shape: logits [N.., V / t], targets i32 [N..] -> [], or [N..] for reduction 'none'. Throws ShapeError. If a
 * target is not a class, the run rejects with IndexError.
 */
export function vocabParallelCrossEntropy(
  logits: Tensor,
  targets: Tensor,
  options: VocabParallelCrossEntropyOptions = {},
): Tensor {
  checkOptions('vocabParallelCrossEntropy', options, vocabParallelCrossEntropyRules);
  const { axis = 'tp', reduction = 'mean', ignoreIndex = -100, labelSmoothing = 0 } = options;
  check(logits, targets, labelSmoothing);
  const { size, rank } = axisOf(currentSession().mesh, axis);
  const classes = logits.shape.at(-1) ?? 0;
  const rows = elementCount(targets.shape);
  const table = widened(logits).reshape([rows, classes]);
  const flat = targets.reshape([rows]);
  const largest = noGrad(() =>
    allGather(table.max(1, { keepDim: true }), axis, 1).max(1, { keepDim: true }),
  );
  const shifted = table.sub(largest);
  const ignored = flat.eq(ignoreIndex);
  // The labels are checked here, because a label that no rank's part contains would go unnoticed.
  const labels = indicesInRange(
    ignored.where(0, flat),
    classes * size,
    'vocabParallelCrossEntropy',
  );
  const own = labels.sub(rank * classes);
  const isOwn = own.ge(0).logicalAnd(own.lt(classes)).logicalAnd(ignored.logicalNot());
  const target = shifted.gather(1, isOwn.where(own, 0).unsqueeze(1)).reshape([rows]);
  const parts = [shifted.exp().sum(1), isOwn.where(target, 0)];
  if (labelSmoothing > 0) parts.push(shifted.sum(1));
  const sums = allReduce(stack(parts), axis, { to: 'invariant' });
  const normalizer = sums.select(0, 0).log();
  const likelihood = sums.select(0, 1).sub(normalizer);
  const mixed =
    labelSmoothing === 0
      ? likelihood
      : likelihood.mul(1 - labelSmoothing).add(
          sums
            .select(0, 2)
            .div(classes * size)
            .sub(normalizer)
            .mul(labelSmoothing),
        );
  const losses = ignored.where(full([], 0, mixed.dtype), mixed.neg());
  if (reduction === 'none') return losses.reshape(targets.shape);
  if (reduction === 'sum') return losses.sum();
  return losses.to('f32').sum().div(ignored.logicalNot().sum()).to(losses.dtype);
}

function check(logits: Tensor, targets: Tensor, labelSmoothing: number): void {
  if (!(labelSmoothing >= 0 && labelSmoothing <= 1)) {
    throw new ConfigError(
      {
        asked: `labelSmoothing ${labelSmoothing}`,
        found: 'a number outside [0, 1]',
        todo: 'Use a share from 0 to 1',
      },
      { labelSmoothing },
    );
  }
  if (logits.ndim > 0 && sameShape(logits.shape.slice(0, -1), targets.shape)) return;
  throw new ShapeError(
    {
      asked: `a loss of classes of shape ${formatShape(logits.shape)} and targets of shape ${formatShape(targets.shape)}`,
      found: 'targets that are not one class index per row',
      todo: `Use targets of shape ${formatShape(logits.shape.slice(0, -1))}; classes are the last dim`,
    },
    { classes: logits.shape, targets: targets.shape },
  );
}
