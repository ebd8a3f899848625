import type { Shape } from '@shardwise/core/spec';
import { elementCount } from './value.ts';

/** An index along each dim. */
export type Place = readonly number[];

/** Yields all places of a shape, row by row. */
export function* placesOf(shape: Shape): Generator<Place> {
  const count = elementCount(shape);
  for (let flat = 0; flat < count; flat++) {
    let rest = flat;
    const reversed = shape.toReversed().map((size) => {
      const index = rest % size;
      rest = Math.floor(rest / size);
      return index;
    });
    yield reversed.reverse();
  }
}

/** Returns the index of the element at a place. */
export function offsetOf(shape: Shape, place: Place): number {
  return shape.reduce((offset, size, dim) => offset * size + (place[dim] ?? 0), 0);
}

/** Returns the index in a broadcast value of the element that appears at a place. */
export function offsetIn(shape: Shape, place: Place): number {
  const own = place.slice(place.length - shape.length);
  return offsetOf(
    shape,
    own.map((index, dim) => (shape[dim] === 1 ? 0 : index)),
  );
}
