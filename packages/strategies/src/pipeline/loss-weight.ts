import {
  fromData,
  mulNodes,
  noGrad,
  Tensor,
  withoutValues,
  type Node,
} from '@shardwise/core/extend';
import type { MicrobatchInputs } from './split-microbatches.ts';

/**
 * The weight of the loss of a microbatch in the loss of the batch: `rows` if it is a mean over rows, `sum` if
 * it is a sum, or the result of a function of the microbatch's inputs, such as the number of its tokens. Except
 * for `sum`, the weights are divided by their sum.
 */
export type LossWeight = 'rows' | 'sum' | ((...inputs: readonly unknown[]) => Tensor | number);

/** Returns the factors by which the losses of microbatches are multiplied. Shape: each []. */
export function lossFactors(weight: LossWeight, parts: readonly MicrobatchInputs[]): Node[] {
  return withoutValues(() =>
    noGrad(() => {
      if (weight === 'sum') return parts.map(() => scalar(1).node);
      const weights = parts.map(({ inputs, rows }) => {
        const own = weight === 'rows' ? rows : weight(...inputs);
        return own instanceof Tensor ? own.to('f32').reshape([]) : own;
      });
      const numbers = weights.filter((each) => typeof each === 'number');
      if (numbers.length === weights.length) {
        const total = numbers.reduce((sum, each) => sum + each, 0);
        return numbers.map((each) => scalar(each / total).node);
      }
      const tensors = weights.map((each) => (typeof each === 'number' ? scalar(each) : each));
      const total = tensors.reduce((sum, each) => sum.add(each));
      return tensors.map((each) => each.div(total).node);
    }),
  );
}

/** Makes a leaf and not a constant, so that microbatches of other sizes run the same plan. */
function scalar(value: number): Tensor {
  return fromData(Float32Array.of(value), [], 'f32');
}

/** Returns the share of a microbatch's loss in the loss of the batch. Shape: loss, factor -> loss. */
export function shareOf(loss: Node, factor: Node): Node {
  return mulNodes(loss, factor);
}
