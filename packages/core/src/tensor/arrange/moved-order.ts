import { listOf } from '../check-arguments.ts';
import { formatShape } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import { ShapeError } from '../../spec/errors.ts';
import { differentDims } from '../different-dims.ts';

/**
 * Returns the order for permute that moves dims to other places. Throws ShapeError if there are not as many places as
 * dims, or if a dim is named twice.
 */
export function movedOrder(
  shape: Shape,
  source: number | readonly number[],
  destination: number | readonly number[],
): number[] {
  const [from, to] = [source, destination].map((dims) =>
    differentDims('movedim', shape, listOf('movedim', dims)),
  );
  if (from === undefined || to === undefined || from.length !== to.length) {
    throw new ShapeError(
      {
        asked: `movedim of shape ${formatShape(shape)}`,
        found: `${from?.length} dims for ${to?.length} places`,
        todo: 'Give as many places as dims',
      },
      { shape },
    );
  }
  const rest = [...shape.keys()].filter((dim) => !from.includes(dim));
  return Array.from(shape.keys(), (place) => {
    const moved = to.indexOf(place);
    return (moved < 0 ? rest.shift() : from[moved]) ?? 0;
  });
}
