import {
  asVarying,
  formatShape,
  LayoutError,
  padTo,
  reinterpret,
  Tensor,
} from '@shardwise/core/extend';
import { forEachTensor, mapTensors } from '../modules/map-tensors.ts';
import type { SequenceCut } from './sequence-cut.ts';
import type { SequenceCuts } from './sequence-cuts.ts';
import { takeStretches } from './stretches.ts';

/** Picks the tensors of a pass whose dim 1 counts the tokens of a sequence. Default: the first tensor of the inputs. */
export type SequencesOf = (...inputs: readonly unknown[]) => readonly Tensor[];

/**
 * Returns the numbers of tokens of the sequences of a pass. Throws LayoutError for inputs without a tensor, and for a sequence
 * without a dim of tokens.
 */
export function sequenceLengths(
  inputs: readonly unknown[],
  sequencesOf: SequencesOf = firstTensor,
): readonly number[] {
  const sequences: unknown = sequencesOf(...inputs);
  const lengths = Array.isArray(sequences)
    ? sequences.map((each: unknown) => (each instanceof Tensor ? each.shape[1] : undefined))
    : [undefined];
  if (lengths.length > 0 && lengths.every((length) => length !== undefined)) return lengths;
  const [first] = Array.isArray(sequences)
    ? sequences.filter((_, at) => lengths[at] === undefined)
    : [sequences];
  throw new LayoutError({
    asked: 'a forward pass under contextParallel',
    found:
      first instanceof Tensor
        ? `a tensor of shape ${formatShape(first.shape)} as a sequence, which has no dim of tokens`
        : 'no tensor of tokens among the inputs',
    todo: 'Pass tokens first, as [B, T] or [B, T, ..], or say with contextParallel({ sequences }) which inputs are sequences',
  });
}

function firstTensor(...inputs: readonly unknown[]): readonly Tensor[] {
  const tensors: Tensor[] = [];
  forEachTensor(inputs, (tensor) => tensors.push(tensor));
  return tensors.slice(0, 1);
}

/**
 * Returns the inputs of a pass with this rank's part of each tensor of as many tokens as a sequence has: dim 1 of tensors with
 * at least two dims, and dim 0 of those with one dim, unless there are as many rows. Other tensors stay whole. All ranks are
 * given the same inputs. Padding is zeros.
 */
export function cutInputs(
  inputs: readonly unknown[],
  cuts: SequenceCuts,
  { axis, rank }: { readonly axis: string; readonly rank: number },
): readonly unknown[] {
  let rows: number | null = null;
  return mapTensors(inputs, (tensor) => {
    rows ??= tensor.shape[0] ?? 0;
    const dim = tensor.ndim === 1 ? 0 : 1;
    const cut = cutOf(tensor, { dim, rows, cuts, axis });
    if (cut === undefined || (dim === 0 && rows === cut.length)) return tensor;
    const own = tensor.requiresGrad ? ownPart(tensor, axis) : asVarying(tensor, axis);
    const padded = padTo(own, dim, cut.paddedLength);
    return takeStretches(padded, dim, cut.stretchesOf(rank));
  });
}

/** Where a tensor may have tokens, and of which sequences. */
interface PlaceOfTensor {
  readonly dim: 0 | 1;
  /** The number of rows of the batch. */
  readonly rows: number;
  readonly cuts: SequenceCuts;
  readonly axis: string;
}

/** The cut of the sequence whose tokens a dim counts. Throws LayoutError for masks that no part is enough for, and for parts. */
function cutOf(
  { shape, dtype }: Tensor,
  { dim, rows, cuts, axis }: PlaceOfTensor,
): SequenceCut | undefined {
  const isOfPairs =
    dtype === 'bool' &&
    (shape.length > 2 || (shape.length === 2 && shape[0] !== rows)) &&
    [-1, -2].every((at) => cuts.ofLength(shape.at(at)) !== undefined);
  if (isOfPairs) {
    throw new LayoutError(
      {
        asked: `a mask of shape ${formatShape(shape)} as an input under contextParallel`,
        found: `its rows belong to queries and its columns to keys, and each rank of '${axis}' would get a part of both`,
        todo: 'Say with causal and keyRanges which keys a query sees, or give numbers of documents',
      },
      { shape, axis },
    );
  }
  const cut = cuts.ofLength(shape[dim]);
  const ofPart = dim === 1 ? cuts.ofLocalLength(shape[1]) : undefined;
  const isPart = cut === undefined && ofPart !== undefined && (dtype === 'i32' || dtype === 'bool');
  if (!isPart) return cut;
  throw new LayoutError(
    {
      asked: `an input of shape ${formatShape(shape)} beside a sequence of ${ofPart.length} tokens`,
      found: `as many tokens as one rank of '${axis}' has: it seems to be a part already`,
      todo: 'Give all ranks whole sequences, positions, masks and labels. contextParallel cuts them',
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
