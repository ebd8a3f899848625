import { formatShape } from '../base/shape.ts';
import { localShape } from '../layout/chunks.ts';
import { axesOfLayout, formatLayout } from '../layout/layout.ts';
import type { Shape } from '../spec/dtype.ts';
import { LayoutError } from '../spec/errors.ts';
import type { Layout } from '../spec/layout.ts';
import type { MeshAxis } from '../spec/mesh.ts';
import { axisSize, firstPlace } from './axis-size.ts';

/**
 * Throws LayoutError for a layout that a tensor of this shape cannot have on a mesh of these axes. Also throws it for
 * layouts that redistributions do not support: values that differ between ranks, values that only one rank has, and
 * chunks of a given size.
 */
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
  const { varying = [], only, chunkSizes = {} } = layout;
  if (varying.length > 0) {
    throw refuse(
      `a value of its own on each rank of ${varying.join(', ')}`,
      'Leave it out: the ranks have one tensor together',
    );
  }
  if (only !== undefined) {
    throw refuse(
      `a tensor that rank ${only.rank} of ${only.axis} has alone, which no collective moves`,
      'Broadcast it from there, and leave `only` out',
    );
  }
  // Checkpoints can read such chunks (OneBitAdam has them). Collectives move equal parts, the last ones padded. Counts
  // that differ from rank to rank are values of the program and not a property of a layout.
  const [chunk] = Object.entries(chunkSizes);
  if (chunk !== undefined) {
    throw refuse(
      `chunks of ${chunk[1]} over ${chunk[0]}, which no collective moves`,
      'Shard it in chunks of ceil(size / ranks): leave chunkSizes out',
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
  requireSections(layout, shape, axes, refuse);
}

function requireSections(
  layout: Layout,
  shape: Shape,
  axes: readonly MeshAxis[],
  refuse: (found: string, todo: string) => LayoutError,
): void {
  for (const [axis, own] of Object.entries(layout.sections ?? {})) {
    const dim = layout.dims.findIndex((each) => each.includes(axis));
    if (dim < 0) {
      throw refuse(
        `sections of the axis '${axis}', which shards no dim`,
        'Give sections to axes that shard a dim',
      );
    }
    const before = layout.dims.map((each, at) =>
      at === dim ? each.slice(0, each.indexOf(axis)) : [],
    );
    const outer = { ...layout, dims: before, flat: [] };
    const total = localShape(shape, outer, firstPlace(axes))[dim] ?? 0;
    const sum = own.reduce((all, each) => all + each, 0);
    if (sum !== total) {
      throw refuse(
        `sections of ${sum} = ${own.join(' + ')} elements, and ${axis} shards ${total}`,
        'Give the sizes of all sections',
      );
    }
    const size = axisSize(axes, axis);
    const odd = own.length === 1 ? undefined : own.find((each) => each % size !== 0);
    if (odd === undefined) continue;
    throw refuse(
      `a section of ${odd} elements over the ${size} ranks of ${axis}`,
      `Use sections that are multiples of ${size}`,
    );
  }
}
