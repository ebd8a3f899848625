import type { Shape } from '@shardwise/core/spec';

/** A dim of a view: its size, and how many elements of memory lie from one index to the next. */
export interface ViewDim {
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
