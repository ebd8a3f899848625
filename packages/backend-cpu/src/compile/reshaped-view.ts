import type { Shape } from '@shardwise/core/spec';
import type { View, ViewDim } from '../wasm/move/view.ts';

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
