import {
  currentSession,
  formatShape,
  type HostData,
  LayoutError,
  noGrad,
  Parameter,
  reinterpret,
  type Shape,
  type Tensor,
} from '@shardwise/core';

/** Per dim of a tensor, the mesh axes that share it out, outermost first. */
export type DimAxes = readonly (readonly string[])[];

/** A parameter of which this rank has a block, along several dims and axes. */
class GridParameter extends Parameter {
  readonly #axes: readonly string[];

  constructor(data: HostData, shape: Shape, axes: readonly string[]) {
    super(data, shape);
    this.#axes = axes;
  }

  override get shardedOver(): readonly string[] {
    return this.#axes;
  }
}

/** This rank's block. Throws LayoutError where the axes do not divide a dim. Shape: N -> block. */
export function takeBlock(whole: Tensor, dims: DimAxes): Tensor {
  const { mesh } = currentSession();
  let block = whole;
  dims.forEach((axes, dim) => {
    let parts = 1;
    let part = 0;
    for (const axis of axes) {
      const { size, rank } = mesh.group(axis);
      parts *= size;
      part = part * size + rank;
    }
    const total = whole.shape[dim] ?? 0;
    if (total % parts !== 0) {
      throw new LayoutError(
        {
          asked: `dim ${dim} of a tensor of shape ${formatShape(whole.shape)} over the axes ${axes.join(', ')}`,
          found: `${total} for ${parts} ranks`,
          todo: `Make it a multiple of ${parts}`,
        },
        { shape: whole.shape, dim, axes },
      );
    }
    const own = total / parts;
    if (parts > 1) block = block.slice(dim, part * own, (part + 1) * own);
  });
  return block;
}

/**
 * A parameter with this rank's block of `whole`, which all ranks hold alike. `sections` equal
 * sections of dim 0 are cut each alone.
 */
export async function gridParameter(
  whole: Parameter,
  dims: DimAxes,
  sections = 1,
): Promise<Parameter> {
  const block = noGrad(() => {
    const [rows = 0, ...rest] = whole.shape;
    const sectioned = whole.reshape([sections, rows / sections, ...rest]);
    const own = takeBlock(sectioned, [[], ...dims]);
    return own.flatten(0, 1);
  });
  const data = (await block.data()).slice();
  return new GridParameter(data, block.shape, dims.flat());
}

/** What several ranks hold alike and use for their own rows: its gradient is summed over these axes. Shape: N -> N. */
export function shared(parameter: Tensor, axes: readonly string[]): Tensor {
  return axes.reduce((x, axis) => reinterpret(x, axis, 'invariant', 'replicate'), parameter);
}
