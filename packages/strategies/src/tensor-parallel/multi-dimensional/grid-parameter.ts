import {
  axisOf,
  currentSession,
  formatShape,
  type Layout,
  LayoutError,
  noGrad,
  type Parameter,
  reinterpret,
  type Shape,
  shardOf,
  type Tensor,
} from '@shardwise/core/extend';
import { layerParameter } from '../../parameters/layer-placement.ts';
import { markPart } from '../../plan/averaged-parameters.ts';
import { ofRankZero } from '../../plan/from-rank-zero.ts';
import type { RankGrid } from './rank-grid.ts';

/**
 * Returns this rank's block of a tensor that mesh axes shard dim by dim. Throws LayoutError if they do not divide a
 * dim. Shape: N -> block.
 */
export function takeBlock(whole: Tensor, dims: Layout['dims']): Tensor {
  requireEven(whole.shape, dims);
  return shardOf(whole, { dims, partial: [] });
}

/**
 * Makes a parameter with this rank's block of `whole`. All ranks get the values of the grid's first rank. Dim 0 consists
 * of `sections` equal sections, each of which is sharded by itself. It is a collective.
 */
export async function gridParameter(
  whole: Parameter,
  { rows: outer, features }: RankGrid,
  dims: Layout['dims'],
  sections = 1,
): Promise<Parameter> {
  const { dtype, requiresGrad, shape } = whole;
  const [rows = 0, ...rest] = shape;
  requireEven([rows / sections, ...rest], dims);
  const axis = dims[0]?.[0];
  const equal = Array.from({ length: sections }, () => rows / sections);
  const layout: Layout = {
    dims,
    partial: [],
    ...(sections === 1 || axis === undefined ? {} : { sections: { [axis]: equal } }),
  };
  // Ranks may have drawn other initial values.
  const block = noGrad(() => shardOf(ofRankZero(whole, [...outer, features]), layout));
  const data = (await block.data()).slice();
  const parameter = layerParameter(data, { wholeShape: shape, layout, dtype, requiresGrad });
  markPart(parameter);
  return parameter;
}

/**
 * Declares a parameter replicate, because ranks with the same values use it for different rows. Its gradient is then
 * summed over these axes. Shape: N -> N.
 */
export function shared(parameter: Tensor, axes: readonly string[]): Tensor {
  return axes.reduce((x, axis) => reinterpret(x, axis, 'invariant', 'replicate'), parameter);
}

function requireEven(shape: Shape, dims: Layout['dims']): void {
  const { mesh } = currentSession();
  for (const [dim, total] of shape.entries()) {
    const axes = dims[dim] ?? [];
    const parts = axes.reduce((product, axis) => product * axisOf(mesh, axis).size, 1);
    if (total % parts === 0) continue;
    throw new LayoutError(
      {
        asked: `dim ${dim} of a tensor of shape ${formatShape(shape)} over the axes ${axes.join(', ')}`,
        found: `${total} for ${parts} ranks`,
        todo: `Make it a multiple of ${parts}`,
      },
      { shape, dim, axes },
    );
  }
}
