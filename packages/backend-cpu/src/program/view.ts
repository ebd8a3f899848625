import type { Shape } from '@shardwise/core/spec';

/** A dim of a view: its size, and how many elements of memory lie from one index to the next. */
interface ViewDim {
  readonly size: number;
  readonly stride: number;
}

/** Where the elements of a value lie in the memory of another value. */
export interface View {
  readonly elementOffset: number;
  readonly dims: readonly ViewDim[];
}

/** The view of a value that lies in memory itself, in row-major order. */
export function wholeView(shape: Shape): View {
  let stride = 1;
  const dims = shape.toReversed().map((size) => {
    const dim = { size, stride };
    stride *= size;
    return dim;
  });
  return { elementOffset: 0, dims: dims.toReversed() };
}

/** Permutes the dims of a view. Dim i of the result is dim `order[i]`. */
export function permutedView({ elementOffset, dims }: View, order: readonly number[]): View {
  return { elementOffset, dims: order.map((dim) => dims[dim] ?? { size: 1, stride: 0 }) };
}

/** The view of `shape` elements from `starts` on in each dim. */
export function slicedView(view: View, starts: readonly number[], shape: Shape): View {
  return {
    elementOffset: view.dims.reduce(
      (offset, { stride }, dim) => offset + stride * (starts[dim] ?? 0),
      view.elementOffset,
    ),
    dims: view.dims.map(({ stride }, dim) => ({ size: shape[dim] ?? 1, stride })),
  };
}

/** The same elements in the same order with other dims. Undefined if a dim would have no single stride. */
export function reshapedView({ elementOffset, dims }: View, shape: Shape): View | undefined {
  const old = dims.filter(({ size }) => size !== 1);
  const made: ViewDim[] = [];
  let next = 0;
  for (let dim = 0; dim < shape.length;) {
    let [size, elements] = [shape[dim] ?? 1, 1];
    if (size === 1) {
      made.push({ size, stride: 0 });
      dim++;
      continue;
    }
    // Take the fewest dims of the old and the new shape that have the same number of elements.
    const [firstOld, firstNew] = [next, dim++];
    elements = old[next++]?.size ?? size;
    while (size !== elements) {
      if (size < elements) size *= shape[dim++] ?? elements;
      else elements *= old[next++]?.size ?? size;
    }
    const from = old.slice(firstOld, next);
    const isStraight = from.every(
      ({ stride }, index) =>
        index === from.length - 1 ||
        stride === (from[index + 1]?.size ?? 1) * (from[index + 1]?.stride ?? 0),
    );
    if (!isStraight) return undefined;
    let stride = from.at(-1)?.stride ?? 0;
    const group = shape
      .slice(firstNew, dim)
      .toReversed()
      .map((own) => {
        const last = { size: own, stride };
        stride *= own;
        return last;
      });
    made.push(...group.toReversed());
  }
  return { elementOffset, dims: made };
}
