import {
  axisSize,
  checkLayout,
  checkOptions,
  type DimRange,
  dimRanges,
  formatLayout,
  formatShape,
  type Layout,
  LayoutError,
  type MeshAxis,
  option,
  type OptionRules,
  type Shape,
} from '@shardwise/core/extend';
import { drawBlocks } from './draw-blocks.ts';
import type { PicturedPart, ShardingPicture } from './sharding-picture.ts';
import { tabulateBlocks } from './tabulate-blocks.ts';

/** Options of `visualizeSharding`. */
export interface VisualizeOptions {
  /** The format of the picture. Default: 'text'. */
  readonly format?: 'text' | 'svg';
}

const visualizeShardingRules: OptionRules<VisualizeOptions> = {
  format: option.oneOf('text', 'svg'),
};

/**
 * Shows which rank holds which part of a tensor in a layout, as a table or as a picture (PyTorch's
 * visualize_sharding). Ranks are those of the mesh, row-major. For a tensor with more than two dims, it shows
 * the sharded dims. Throws LayoutError if more than two dims are sharded.
 */
export function visualizeSharding(
  layout: Layout,
  shape: Shape,
  axes: readonly MeshAxis[],
  options: VisualizeOptions = {},
): string {
  checkOptions('visualizeSharding', options, visualizeShardingRules);
  checkLayout(layout, shape, axes);
  refuseFlat(layout, shape);
  const [rowDim, columnDim] = shownDims(layout, shape);
  const rowCount = rowDim === undefined ? 1 : (shape[rowDim] ?? 1);
  const columnCount = columnDim === undefined ? 1 : (shape[columnDim] ?? 1);
  const rangesOf = (dim: number | undefined, rank: number): readonly DimRange[] => {
    if (dim === undefined) return [{ start: 0, stop: 1 }];
    const place = coordinates(rank, axes);
    return dimRanges(shape[dim] ?? 1, layout.dims[dim] ?? [], layout, (axis) => ({
      size: axisSize(axes, axis),
      rank: place.get(axis) ?? 0,
    }));
  };
  const blocks = new Map<string, PicturedPart>();
  const idle: number[] = [];
  const worldSize = axes.reduce((product, { size }) => product * size, 1);
  for (let rank = 0; rank < worldSize; rank++) {
    const parts = rangesOf(rowDim, rank).flatMap((rows) =>
      rangesOf(columnDim, rank).map((columns) => ({ rows, columns })),
    );
    if (parts.every(isEmpty)) idle.push(rank);
    for (const part of parts.filter((each) => !isEmpty(each))) {
      const key = `${part.rows.start} ${part.columns.start}`;
      blocks.set(key, { ...part, ranks: [...(blocks.get(key)?.ranks ?? []), rank] });
    }
  }
  const mesh = axes.map(({ name, size }) => `${name}=${size}`).join(' × ');
  const picture: ShardingPicture = {
    title: `${formatShape(shape)} ${formatLayout(layout)} on ${mesh}`,
    blocks: [...blocks.values()].sort(
      (a, b) => a.rows.start - b.rows.start || a.columns.start - b.columns.start,
    ),
    idle,
    rowDim: rowDim === undefined ? '' : `dim ${rowDim}`,
    columnDim: columnDim === undefined ? '' : `dim ${columnDim}`,
    rowCount,
    columnCount,
  };
  return options.format === 'svg' ? drawBlocks(picture) : tabulateBlocks(picture);
}

function isEmpty({ rows, columns }: Pick<PicturedPart, 'rows' | 'columns'>): boolean {
  return rows.start === rows.stop || columns.start === columns.stop;
}

function refuseFlat(layout: Layout, shape: Shape): void {
  if ((layout.flat ?? []).length === 0) return;
  throw new LayoutError(
    {
      asked: `a picture of ${formatShape(shape)} ${formatLayout(layout)}`,
      found: `elements sharded row by row over ${layout.flat?.join(', ')}`,
      todo: 'Show a layout that shards dims',
    },
    { layout, shape },
  );
}

/** Returns the dims that are shown as rows and columns. A vector is shown as one row. */
function shownDims(
  layout: Layout,
  shape: Shape,
): readonly [number | undefined, number | undefined] {
  if (shape.length <= 1) return [undefined, shape.length === 1 ? 0 : undefined];
  const sharded = shape.flatMap((_, dim) => ((layout.dims[dim] ?? []).length > 0 ? [dim] : []));
  if (sharded.length > 2) {
    throw new LayoutError(
      {
        asked: `a picture of ${formatShape(shape)} ${formatLayout(layout)}`,
        found: `${sharded.length} dims that are sharded`,
        todo: 'Show a layout that shards two dims at most',
      },
      { layout, shape },
    );
  }
  const others = shape.map((_, dim) => dim).filter((dim) => !sharded.includes(dim));
  const [row, column] = [...sharded, ...others].slice(0, 2).sort((a, b) => a - b);
  return [row, column];
}

function coordinates(rank: number, axes: readonly MeshAxis[]): ReadonlyMap<string, number> {
  let rest = rank;
  return new Map(
    axes.toReversed().map(({ name, size }) => {
      const coordinate = rest % size;
      rest = Math.floor(rest / size);
      return [name, coordinate];
    }),
  );
}
