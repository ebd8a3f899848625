import {
  axesOfLayout,
  formatLayout,
  formatShape,
  type Layout,
  LayoutError,
  type MeshAxis,
  type Shape,
} from '@shardwise/core/extend';

/** Throws LayoutError for a layout that no tensor of this shape can have on a mesh of these axes. */
export function checkLayout(layout: Layout, shape: Shape, axes: readonly MeshAxis[]): void {
  const refuse = (found: string, todo: string): LayoutError =>
    new LayoutError(
      {
        asked: `the layout ${formatLayout(layout)} of a tensor of shape ${formatShape(shape)}`,
        found,
        todo,
      },
      { layout, shape, axes },
    );
  if (layout.dims.length !== shape.length) {
    throw refuse(
      `axes for ${layout.dims.length} dims, and the tensor has ${shape.length}`,
      `Give ${shape.length} lists of axes, empty ones for dims that are whole`,
    );
  }
  if (layout.varying !== undefined && layout.varying.length > 0) {
    throw refuse(
      `a value of its own on each rank of ${layout.varying.join(', ')}`,
      'Leave it out: the ranks have one tensor together',
    );
  }
  const named = axesOfLayout(layout);
  const mesh = axes.map(({ name, size }) => `${name} ${size}`).join(' x ');
  const unknown = named.find((axis) => !axes.some(({ name }) => name === axis));
  if (unknown !== undefined) {
    throw refuse(`the axis '${unknown}' on a mesh of ${mesh || 'no axes'}`, 'Use axes of the mesh');
  }
  const twice = named.find((axis, index) => named.indexOf(axis) !== index);
  if (twice !== undefined) {
    const uses = named.filter((axis) => axis === twice).length;
    throw refuse(
      `the axis '${twice}' ${uses} times`,
      'Use an axis for one dim, or for the partial sum',
    );
  }
}
