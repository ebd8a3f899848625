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
  type Tensor,
} from '@shardwise/core/extend';
import { shardOf } from '../../layout/redistribute.ts';
import { LayerParameter } from '../layer-parameter.ts';

/**
 * Returns this rank's block of a tensor that mesh axes shard dim by dim. Throws LayoutError if they do not divide a
 * dim. Shape: N -> block.
 */
export function takeBlock(whole: Tensor, dims: Layout['dims']): Tensor {
  requireEven(whole.shape, dims);
  return shardOf(whole, { dims, partial: [] });
}

/**
 * Makes a parameter with this rank's block of `whole`, which is the same on all ranks. Dim 0 consists of `sections`
 * equal sections, each of which is sharded by itself.
 */
export async function gridParameter(
  whole: Parameter,
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
  const block = noGrad(() => shardOf(whole, layout));
  const data = (await block.data()).slice();
  return new LayerParameter(data, { wholeShape: shape, layout, dtype, requiresGrad });
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
