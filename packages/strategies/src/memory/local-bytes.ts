import { elementCount, type Layout, type MeshAxis, type Shape } from '@shardwise/core/extend';

/** In how many parts of one size a value of this layout lies on the ranks. */
export function partsOf(layout: Layout, axes: readonly MeshAxis[]): number {
  const { dims, flat = [] } = layout;
  return ranksOver([...dims.flat(), ...flat], axes);
}

/** Elements of a value on one rank, rounded up where the ranks do not divide it. */
export function localElements(shape: Shape, layout: Layout, axes: readonly MeshAxis[]): number {
  const { dims, flat = [] } = layout;
  const local = shape.map((size, dim) => Math.ceil(size / ranksOver(dims[dim] ?? [], axes)));
  return Math.ceil(elementCount(local) / ranksOver(flat, axes));
}

function ranksOver(names: readonly string[], axes: readonly MeshAxis[]): number {
  const sizes = new Map(axes.map(({ name, size }) => [name, size]));
  return names.reduce((product, name) => product * (sizes.get(name) ?? 1), 1);
}
