import type { Layout, MeshAxis, Shape } from '@shardwise/core/extend';

/** Elements of a dim, from start up to stop. */
export interface ElementRange {
  readonly start: number;
  readonly stop: number;
}

/** A rank's place along an axis. */
export type CoordinateOf = (axis: string) => number;

/** The place that has the most elements of everything. */
export const firstPlace: CoordinateOf = () => 0;

export function axisSize(axes: readonly MeshAxis[], name: string): number {
  return axes.find((axis) => axis.name === name)?.size ?? 1;
}

/** torch.chunk's rule: ceil(size / parts) elements each; the last parts may have fewer, or none. */
export function chunkRange(size: number, parts: number, index: number): ElementRange {
  const chunk = Math.ceil(size / parts);
  return { start: Math.min(size, index * chunk), stop: Math.min(size, (index + 1) * chunk) };
}

/** What a place holds of a dim: chunks of the first axis, of these the chunks of the second, and so on. */
export function shardRange(
  size: number,
  dimAxes: readonly string[],
  axes: readonly MeshAxis[],
  coordinateOf: CoordinateOf,
): ElementRange {
  return dimAxes.reduce<ElementRange>(
    ({ start, stop }, axis) => {
      const chunk = chunkRange(stop - start, axisSize(axes, axis), coordinateOf(axis));
      return { start: start + chunk.start, stop: start + chunk.stop };
    },
    { start: 0, stop: size },
  );
}

/** Shape of what a place holds of a tensor. */
export function localShape(
  shape: Shape,
  layout: Layout,
  axes: readonly MeshAxis[],
  coordinateOf: CoordinateOf,
): Shape {
  return shape.map((size, dim) => {
    const { start, stop } = shardRange(size, layout.dims[dim] ?? [], axes, coordinateOf);
    return stop - start;
  });
}
