import {
  allGather,
  allReduce,
  formatShape,
  fromData,
  LayoutError,
  noGrad,
  Tensor,
  withCollectiveName,
} from '@shardwise/core/extend';
import type { ContextMessages } from './context-messages.ts';
import { mapTensors } from '../modules/map-tensors.ts';
import type { SequenceCut } from './sequence-cut.ts';
import type { SequenceCuts } from './sequence-cuts.ts';
import { takeStretches } from './stretches.ts';

/**
 * The weight of the loss that a model returns for a part of the tokens: `tokens` if it is a mean over all of them, `sum`
 * if it is a sum, or a function that returns what the loss was divided by, such as the number of labels that count. It is
 * called with the inputs of the part. `share`: the model has divided the sum by the number for the whole sequence.
 */
export type ContextLossWeight =
  | 'tokens'
  | 'sum'
  | 'share'
  | ((...inputs: readonly unknown[]) => Tensor | number);

export interface PassOfPart {
  readonly cuts: SequenceCuts;
  readonly ranks: number;
  readonly axis: string;
  /** The inputs of this rank's part. */
  readonly inputs: readonly unknown[];
  /** Undefined if nobody has said how losses of parts are weighted. */
  readonly lossWeight: ContextLossWeight | undefined;
  readonly messages: ContextMessages;
}

/**
 * Joins what the ranks computed for their tokens, so that each has the result of the whole sequence: tensors of tokens are
 * gathered, and a loss becomes that of all tokens. Shape: [B, T / ranks, ..] -> [B, T, ..], [] -> []. Throws LayoutError for
 * other tensors.
 */
export function joinOutputs<Output>(output: Output, pass: PassOfPart): Output {
  let found = 0;
  const joined = mapTensors(output, (tensor) => {
    found++;
    return withCollectiveName(`the result over '${pass.axis}'`, () =>
      tensor.ndim === 0 ? lossOfAll(tensor, pass) : gathered(tensor, pass),
    );
  });
  if (found > 0) return joined;
  throw new LayoutError({
    asked: 'the result of a model under contextParallel',
    found: 'no tensor in arrays or plain objects, so nothing could be joined',
    todo: 'Return tensors, a list of them, or a plain object with them',
  });
}

function gathered(tensor: Tensor, { cuts, axis, messages }: PassOfPart): Tensor {
  const cut = cuts.ofLocalLength(tensor.shape[1]);
  if (cut === undefined) {
    const own = cuts.all.map(({ localLength }) => localLength).join(' or ');
    throw new LayoutError(
      {
        asked: `a result of shape ${formatShape(tensor.shape)} under contextParallel`,
        found: `each rank of '${axis}' has ${own} tokens, and dim 1 does not count them: the result may mix tokens`,
        todo: 'Return tensors of shape [B, T, ..] or a loss, and compute what mixes tokens from the result',
      },
      { shape: tensor.shape, axis },
    );
  }
  messages.ofResult({
    what: 'tokens',
    becomes: 'those of all ranks',
    axis,
    elements: tensor.numel * cut.over.ranks,
    dtype: tensor.dtype,
    forward: 'allGather',
    backward: tensor.requiresGrad ? 'reduceScatter' : null,
  });
  const whole = takeStretches(allGather(tensor, axis, 1), 1, cut.inOrder('ranks'));
  return cut.paddedLength === cut.length ? whole : whole.slice(1, 0, cut.length);
}

/** The sum of the terms of all ranks. The gradient of each term is that of the sum, as ranks average gradients. */
function lossOfAll(loss: Tensor, pass: PassOfPart): Tensor {
  const { cuts, ranks, axis, inputs, lossWeight } = pass;
  const summed = (x: Tensor, what: string): Tensor => {
    const backward = x.requiresGrad ? 'allReduce' : null;
    const { numel: elements, dtype } = x;
    const forward = 'allReduce';
    pass.messages.ofResult({ what, becomes: 'sum', axis, elements, dtype, forward, backward });
    return allReduce(x, axis);
  };
  if (lossWeight === undefined) throw unweighted(axis);
  if (lossWeight === 'sum' || lossWeight === 'share') return summed(loss, 'loss');
  if (lossWeight === 'tokens') {
    if (cuts.padded === undefined) return summed(loss.div(ranks), 'loss');
    throw padded(cuts.padded, axis);
  }
  const weight = noGrad(() => {
    const own: unknown = lossWeight(...inputs);
    return own instanceof Tensor
      ? own.to('f32').reshape([])
      : fromData(Float32Array.of(Number(own)), [], 'f32');
  });
  const total = noGrad(() => summed(weight, 'weight of the loss'));
  // A part in which nothing counts may have a loss of 0 / 0.
  const term = weight.gt(0).where(loss.mul(weight).div(total), 0);
  return summed(term, 'loss');
}

function unweighted(axis: string): LayoutError {
  return new LayoutError(
    {
      asked: 'a loss that a model returns under contextParallel',
      found: `each rank of '${axis}' has the loss of its own tokens, and nothing says how many of them count in it`,
      todo: "Say so: contextParallel({ lossWeight: 'tokens' }) for a mean over all tokens, 'sum' for a sum, or a function of the inputs that counts labels. Or return logits, and compute the loss from these",
    },
    { axis },
  );
}

function padded({ length, paddedLength, over }: SequenceCut, axis: string): LayoutError {
  return new LayoutError(
    {
      asked: `a mean loss over the tokens of a sequence of ${length} on ${over.ranks} ranks of '${axis}'`,
      found: `${paddedLength - length} tokens of padding, which would count in it`,
      todo: 'Use lengths that the ranks divide, give lossWeight a function that counts labels, or return logits',
    },
    { axis, length },
  );
}
