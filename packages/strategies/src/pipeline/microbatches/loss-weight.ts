import {
  ConfigError,
  constantLike,
  fromData,
  mulNodes,
  noGrad,
  Tensor,
  whereNodes,
  withoutValues,
  type Node,
} from '@shardwise/core/extend';
import type { MicrobatchInputs } from './split-microbatches.ts';

/**
 * The weight of the loss of a microbatch in the loss of the batch: `rows` if it is a mean over rows, `sum` if
 * it is a sum, or the result of a function of the microbatch's inputs, such as the number of its tokens. Except
 * for `sum`, the weights are divided by their sum. A microbatch of weight 0 does not count, whatever its loss is.
 */
export type LossWeight = 'rows' | 'sum' | ((...inputs: readonly unknown[]) => Tensor | number);

/** How the loss of a microbatch enters the loss of the batch. */
export interface LossFactor {
  /** What the loss is multiplied by. Shape: f32 []. */
  readonly factor: Node;
  /** Whether the product is a term of the loss of the batch. Null: it is. Shape: bool []. */
  readonly enters: Node | null;
  /** Whether the microbatch adds to gradients. Null: it does. Shape: bool []. */
  readonly counts: Node | null;
}

/**
 * Returns how the losses of microbatches enter that of the batch. Microbatches of weight 0 do not enter it, because
 * their losses may be 0 / 0. If all weights are 0, the loss of the batch is the mean of the losses by rows, as on one
 * rank, where it is NaN or what the loss function makes of a batch in which nothing counts. Its gradients are 0.
 * Throws ConfigError for a weight that is no number, negative or not finite.
 */
export function lossFactors(weight: LossWeight, parts: readonly MicrobatchInputs[]): LossFactor[] {
  return withoutValues(() =>
    noGrad(() => {
      if (weight === 'sum') {
        return parts.map(() => ({ factor: scalar(1).node, enters: null, counts: null }));
      }
      const weights = parts.map(({ inputs, rows }, microbatch) => {
        const own: unknown = weight === 'rows' ? rows : weight(...inputs);
        if (own instanceof Tensor) return own.to('f32').reshape([]);
        if (typeof own === 'number' && own >= 0 && own < Number.POSITIVE_INFINITY) return own;
        throw wrongWeight(own, microbatch);
      });
      const rows = Math.max(
        1,
        parts.reduce((sum, part) => sum + part.rows, 0),
      );
      const sharesOfRows = parts.map((part) => part.rows / rows);
      const numbers = weights.filter((each) => typeof each === 'number');
      return numbers.length === weights.length
        ? ofNumbers(numbers, sharesOfRows)
        : ofTensors(
            weights.map((each) => (typeof each === 'number' ? scalar(each) : each)),
            sharesOfRows,
          );
    }),
  );
}

function ofNumbers(weights: readonly number[], sharesOfRows: readonly number[]): LossFactor[] {
  const total = weights.reduce((sum, each) => sum + each, 0);
  return weights.map((each, microbatch) => {
    const factor = scalar(total === 0 ? (sharesOfRows[microbatch] ?? 0) : each / total).node;
    const counts = each === 0 ? scalar(0).ne(0).node : null;
    return { factor, enters: total === 0 ? null : counts, counts };
  });
}

function ofTensors(weights: readonly Tensor[], sharesOfRows: readonly number[]): LossFactor[] {
  const total = weights.reduce((sum, each) => sum.add(each));
  const isNothing = total.eq(0);
  return weights.map((each, microbatch) => {
    const counts = each.ne(0);
    const shareOfRows = scalar(sharesOfRows[microbatch] ?? 0);
    const factor = isNothing.where(shareOfRows, each.div(total)).node;
    return { factor, enters: counts.logicalOr(isNothing).node, counts: counts.node };
  });
}

/** Makes a leaf and not a constant, so that microbatches of other sizes run the same plan. */
function scalar(value: number): Tensor {
  return fromData(Float32Array.of(value), [], 'f32');
}

/** Returns the share of a microbatch's loss in the loss of the batch. Shape: [] -> []. */
export function shareOf(loss: Node, { factor, enters }: LossFactor): Node {
  const share = mulNodes(loss, factor);
  return enters === null ? share : whereNodes(enters, share, constantLike(share, 0));
}

function wrongWeight(found: unknown, microbatch: number): ConfigError {
  return new ConfigError(
    {
      asked: 'the weight of the loss of a microbatch',
      found: `${typeof found === 'number' ? found : `a value of type ${typeof found}`}, for microbatch ${microbatch}`,
      todo: 'Return a number that is at least 0, such as the number of tokens that count, or a tensor with it',
    },
    { microbatch },
  );
}
