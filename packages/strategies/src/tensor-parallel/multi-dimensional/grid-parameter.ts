import {
  allGather,
  type Block,
  currentSession,
  extentOfBlocks,
  formatShape,
  LayoutError,
  noGrad,
  type Parameter,
  ParameterPart,
  reinterpret,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';
import { CutParameter } from '../cut-parameter.ts';

/** Per dim of a tensor, the mesh axes that share it out, outermost first. */
export type DimAxes = readonly (readonly string[])[];

interface GridCut {
  readonly dims: DimAxes;
  /** Equal sections of dim 0, each cut alone. */
  readonly sections: number;
}

/** A parameter of which this rank has a block, along several dims and axes. */
class GridParameter extends CutParameter {
  readonly #cut: GridCut;

  constructor(part: ParameterPart, cut: GridCut) {
    super(part);
    this.#cut = cut;
  }

  override partOf(whole: Tensor): Tensor {
    return blockOf(whole, this.#cut);
  }

  protected override join(part: Tensor): Tensor {
    const { dims, sections } = this.#cut;
    const [rows = 0, ...rest] = part.shape;
    const gather = (x: Tensor, axis: string, dim: number): Tensor =>
      allGather(x, axis, dim, 'invariant');
    return dims
      .reduce(
        (x, axes, dim) => axes.reduceRight((each, axis) => gather(each, axis, dim + 1), x),
        part.reshape([sections, rows / sections, ...rest]),
      )
      .flatten(0, 1);
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
  const cut = { dims, sections };
  const { dtype, requiresGrad } = whole;
  const [rows = 0, ...rest] = whole.shape;
  const sectionRows = rows / sections;
  const [own = { start: 0, stop: 0 }, ...others] = ownBlock([sectionRows, ...rest], dims);
  const blocks = Array.from({ length: sections }, (_, section) => {
    const offset = section * sectionRows;
    return [{ start: offset + own.start, stop: offset + own.stop }, ...others];
  });
  const block = noGrad(() => blockOf(whole, cut));
  const data = (await block.data()).slice();
  const part = new ParameterPart(data, block.shape, {
    dtype,
    requiresGrad,
    extent: extentOfBlocks(whole.shape, blocks),
    shardedOver: dims.flat(),
  });
  return new GridParameter(part, cut);
}

/** This rank's block of each section. Shape: whole -> part. */
function blockOf(whole: Tensor, { dims, sections }: GridCut): Tensor {
  const [rows = 0, ...rest] = whole.shape;
  const sectioned = whole.reshape([sections, rows / sections, ...rest]);
  return takeBlock(sectioned, [[], ...dims]).flatten(0, 1);
}

/** What several ranks hold alike and use for their own rows: its gradient is summed over these axes. Shape: N -> N. */
export function shared(parameter: Tensor, axes: readonly string[]): Tensor {
  return axes.reduce((x, axis) => reinterpret(x, axis, 'invariant', 'replicate'), parameter);
}
