import { localShape } from '../layout/chunks.ts';
import { ownPlace } from '../rank.ts';
import type { Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { padTo, trimTo } from './equal-parts.ts';
import { applyMove } from './moves.ts';

// Collectives move equal parts. A dim in given chunks of c over n ranks is one of c · n in equal parts, of which the last
// rows are padding. Such chunks come from dims that were joined: 2 rows of 3 over 3 ranks are 6 in chunks of 3, not of 2.

/** The axes that shard a dim in chunks of a given size. Each of them is the only axis of its dim. */
export function chunkedAxes({ dims, chunkSizes = {} }: Layout): readonly string[] {
  return dims.flat().filter((axis) => axis in chunkSizes);
}

/** Gathers the chunks of all ranks. Adds collectives to the graph. Shape: part -> with these dims whole. */
export function gatherChunks(part: Tensor, layout: Layout, shape: Shape): Tensor {
  return chunkedAxes(layout).reduce((x, axis) => {
    const { dim, place, padded } = chunksOver(axis, layout);
    const move = { operation: 'allGather', axis, from: { shard: dim }, to: 'invariant' } as const;
    const whole = applyMove(x, move, x.shape.with(dim, padded), place);
    return trimTo(whole, dim, shape[dim] ?? 0);
  }, part);
}

/** Takes this rank's chunks. Shape: with these dims whole -> part. */
export function cutChunks(whole: Tensor, layout: Layout, shape: Shape): Tensor {
  const own = localShape(shape, layout, ownPlace);
  return chunkedAxes(layout).reduce((x, axis) => {
    const { dim, place, padded } = chunksOver(axis, layout);
    const move = { operation: 'slice', axis, from: 'invariant', to: { shard: dim } } as const;
    const part = applyMove(padTo(x, dim, padded), move, x.shape.with(dim, padded), place);
    return trimTo(part, dim, own[dim] ?? 0);
  }, whole);
}

interface GivenChunks {
  readonly dim: number;
  readonly place: ReturnType<typeof ownPlace>;
  /** The size of the dim with its padding. */
  readonly padded: number;
}

function chunksOver(axis: string, { dims, chunkSizes = {} }: Layout): GivenChunks {
  const place = ownPlace(axis);
  const dim = dims.findIndex((axes) => axes.includes(axis));
  return { dim, place, padded: (chunkSizes[axis] ?? 0) * place.size };
}
