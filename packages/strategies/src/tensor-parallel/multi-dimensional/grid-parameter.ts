import {
  type Block,
  currentSession,
  type Extent,
  extentOfBlocks,
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
  readonly #extent: Extent;

  constructor(data: HostData, shape: Shape, axes: readonly string[], extent: Extent) {
    super(data, shape);
    this.#axes = axes;
    this.#extent = extent;
  }

  override get extent(): Extent {
    return this.#extent;
  }

  override get shardedOver(): readonly string[] {
    return this.#axes;
  }
}

/** This rank's block. Throws LayoutError where the axes do not divide a dim. Shape: N -> block. */
export function takeBlock(whole: Tensor, dims: DimAxes): Tensor {
  return ownBlock(whole.shape, dims).reduce(
    (x, { start, stop }, dim) =>
      stop - start === whole.shape[dim] ? x : x.slice(dim, start, stop),
    whole,
  );
}

/** Where this rank's block lies. */
function ownBlock(shape: Shape, dims: DimAxes): Block {
  const { mesh } = currentSession();
  return shape.map((total, dim) => {
    const axes = dims[dim] ?? [];
    let parts = 1;
    let part = 0;
    for (const axis of axes) {
      const { size, rank } = mesh.group(axis);
      parts *= size;
      part = part * size + rank;
    }
    if (total % parts !== 0) {
      throw new LayoutError(
        {
          asked: `dim ${dim} of a tensor of shape ${formatShape(shape)} over the axes ${axes.join(', ')}`,
          found: `${total} for ${parts} ranks`,
          todo: `Make it a multiple of ${parts}`,
        },
        { shape, dim, axes },
      );
    }
    const own = total / parts;
    return { start: part * own, stop: (part + 1) * own };
  });
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
  const [rows = 0, ...rest] = whole.shape;
  const sectionRows = rows / sections;
  const block = noGrad(() => {
    const sectioned = whole.reshape([sections, sectionRows, ...rest]);
    return takeBlock(sectioned, [[], ...dims]).flatten(0, 1);
  });
  const [own = { start: 0, stop: 0 }, ...others] = ownBlock([sectionRows, ...rest], dims);
  const blocks = Array.from({ length: sections }, (_, section) => {
    const offset = section * sectionRows;
    return [{ start: offset + own.start, stop: offset + own.stop }, ...others];
  });
  const data = (await block.data()).slice();
  return new GridParameter(data, block.shape, dims.flat(), extentOfBlocks(whole.shape, blocks));
}

/** What several ranks hold alike and use for their own rows: its gradient is summed over these axes. Shape: N -> N. */
export function shared(parameter: Tensor, axes: readonly string[]): Tensor {
  return axes.reduce((x, axis) => reinterpret(x, axis, 'invariant', 'replicate'), parameter);
}
