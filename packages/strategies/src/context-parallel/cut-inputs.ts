import {
  asVarying,
  formatShape,
  LayoutError,
  padTo,
  reinterpret,
  type Tensor,
} from '@shardwise/core/extend';
import { forEachTensor, mapTensors } from '../modules/map-tensors.ts';
import type { SequenceCut } from './sequence-cut.ts';
import { takeStretches } from './stretches.ts';

/** Returns the number of tokens of a pass: dim 1 of the first tensor. Throws LayoutError if there is none. */
export function sequenceLength(inputs: readonly unknown[]): number {
  const tensors: Tensor[] = [];
  forEachTensor(inputs, (tensor) => tensors.push(tensor));
  const length = tensors[0]?.shape[1];
  if (length !== undefined) return length;
  throw new LayoutError({
    asked: 'a forward pass under contextParallel',
    found:
      tensors[0] === undefined
        ? 'inputs without a tensor'
        : `a first tensor of shape ${formatShape(tensors[0].shape)}, which has no dim of tokens`,
    todo: 'Pass tokens first, as [B, T] or [B, T, ..]',
  });
}

/**
 * Returns the inputs of a pass with this rank's part of each tensor of T tokens: dim 1 of tensors with at least two dims,
 * and dim 0 of those with one dim, unless there are as many rows. Other tensors stay whole. All ranks are given the same
 * inputs. Padding is zeros.
 */
export function cutInputs(
  inputs: readonly unknown[],
  cut: SequenceCut,
  { axis, rank }: { readonly axis: string; readonly rank: number },
): readonly unknown[] {
  let rows: number | null = null;
  return mapTensors(inputs, (tensor) => {
    rows ??= tensor.shape[0] ?? 0;
    const dim = dimOfTokens(tensor, cut, rows, axis);
    if (dim === null) return tensor;
    const own = tensor.requiresGrad ? ownPart(tensor, axis) : asVarying(tensor, axis);
    const padded = padTo(own, dim, cut.paddedLength);
    return takeStretches(padded, dim, cut.stretchesOf(rank));
  });
}

function dimOfTokens(
  { shape, dtype }: Tensor,
  { length, localLength, over: { ranks } }: SequenceCut,
  rows: number,
  axis: string,
): 0 | 1 | null {
  const dim = shape.length === 1 ? 0 : 1;
  if (dtype === 'bool' && shape.length > 1 && shape.at(-1) === length && shape.at(-2) === length) {
    throw new LayoutError(
      {
        asked: `a mask of shape ${formatShape(shape)} as an input under contextParallel`,
        found: `its rows belong to queries and its columns to keys, and each of the ${ranks} ranks of '${axis}' would get a part of both`,
        todo: 'Say with causal and keyRanges which keys a query sees, or give numbers of documents',
      },
      { shape, axis },
    );
  }
  if (shape[dim] === length && !(dim === 0 && rows === length)) return dim;
  const isPart = ranks > 1 && dim === 1 && shape[1] === localLength && localLength < length;
  if (!isPart || dtype !== 'i32') return null;
  throw new LayoutError(
    {
      asked: `an input of shape ${formatShape(shape)} beside a sequence of ${length} tokens`,
      found: `as many tokens as one rank of '${axis}' has: it seems to be a part already`,
      todo: 'Give all ranks whole sequences, positions and labels. contextParallel cuts them',
    },
    { shape, axis },
  );
}

/** Inputs with a gradient, such as embeddings, are used by each rank in its own way. */
function ownPart(tensor: Tensor, axis: string): Tensor {
  return tensor.node.axisTypes?.on(axis) === 'replicate'
    ? reinterpret(tensor, axis, 'replicate', 'varying')
    : tensor;
}
