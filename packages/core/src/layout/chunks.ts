import { elementCount } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';

/** The indices of a dim from `start` to `stop` - 1. */
export interface DimRange {
  readonly start: number;
  readonly stop: number;
}

/** The elements `start` to `stop` - 1 of a box of a tensor, counted row by row within the box. */
export interface Chunk {
  /** A range of each dim. */
  readonly box: readonly DimRange[];
  readonly start: number;
  readonly stop: number;
}

/** The place of a rank on an axis: the number of ranks of the axis, and the rank's number among them. */
export type PlaceOf = (axis: string) => { readonly size: number; readonly rank: number };

/** The chunk that is the whole tensor. */
export function wholeChunk(shape: Shape): Chunk {
  return chunkOfBox(boxOf(shape));
}

/** The range of each dim of a whole tensor. */
export function boxOf(shape: Shape): readonly DimRange[] {
  return shape.map((stop) => ({ start: 0, stop }));
}

/** The size of each dim of a box. */
export function boxShape(box: readonly DimRange[]): Shape {
  return box.map(({ start, stop }) => stop - start);
}

/** Whether two boxes hold the same elements. */
export function sameBox(a: readonly DimRange[], b: readonly DimRange[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ start, stop }, dim) => start === b[dim]?.start && stop === b[dim]?.stop)
  );
}

/**
 * The rule of torch.chunk: each part has `chunk` elements, by default ceil(size / parts). The last parts may have
 * fewer, or none.
 */
export function chunkRange(
  size: number,
  parts: number,
  index: number,
  chunk: number = Math.ceil(size / parts),
): DimRange {
  return { start: Math.min(size, index * chunk), stop: Math.min(size, (index + 1) * chunk) };
}

/** The ranges of a dim that a place has, in order. It is one empty range if the place has nothing. */
export function dimRanges(
  size: number,
  axes: readonly string[],
  { sections, chunkSizes }: Pick<Layout, 'sections' | 'chunkSizes'>,
  placeOf: PlaceOf,
): readonly DimRange[] {
  return axes.reduce<readonly DimRange[]>(
    (ranges, axis) => {
      const { size: parts, rank } = placeOf(axis);
      const total = ranges.reduce((sum, { start, stop }) => sum + stop - start, 0);
      let offset = 0;
      const own = (sections?.[axis] ?? [total]).flatMap((section) => {
        const { start, stop } = chunkRange(section, parts, rank, chunkSizes?.[axis]);
        const taken = takeRanges(ranges, offset + start, offset + stop);
        offset += section;
        return taken;
      });
      return own.length > 0 ? own : [{ start: size, stop: size }];
    },
    [{ start: 0, stop: size }],
  );
}

/** The indices `start` to `stop - 1` of all ranges together. */
function takeRanges(ranges: readonly DimRange[], start: number, stop: number): DimRange[] {
  let offset = 0;
  return ranges.flatMap((range) => {
    const first = range.start + Math.max(0, start - offset);
    const end = Math.min(range.stop, range.start + stop - offset);
    offset += range.stop - range.start;
    return first < end ? [{ start: first, stop: end }] : [];
  });
}

/**
 * The shape of what a place has, without padding. If axes of `flat` shard the tensor, its elements lie in a row along
 * dim 0.
 */
export function localShape(shape: Shape, layout: Layout, placeOf: PlaceOf): Shape {
  const { dims } = layout;
  const local = shape.map((size, dim) =>
    dimRanges(size, dims[dim] ?? [], layout, placeOf).reduce(
      (sum, { start, stop }) => sum + stop - start,
      0,
    ),
  );
  if ((layout.flat ?? []).length === 0) return local;
  const { start, stop } = flatRange(elementCount(local), layout, placeOf);
  return [stop - start, ...local.slice(1).map(() => 1)];
}

function flatRange(
  elements: number,
  { flat = [], chunkSizes }: Layout,
  placeOf: PlaceOf,
): DimRange {
  let own: DimRange = { start: 0, stop: elements };
  let padded = elements;
  for (const axis of flat) {
    const { size, rank } = placeOf(axis);
    const chunk = chunkSizes?.[axis] ?? Math.ceil(padded / size);
    const { start, stop } = own;
    own = {
      start: Math.min(stop, start + rank * chunk),
      stop: Math.min(stop, start + (rank + 1) * chunk),
    };
    padded = chunk;
  }
  return own;
}

/** Whether a place has anything of a tensor with this layout. It has nothing if only another rank has the tensor. */
export function isHeldAt({ only }: Pick<Layout, 'only'>, placeOf: PlaceOf): boolean {
  return only === undefined || placeOf(only.axis).rank === only.rank;
}

/**
 * The elements of a tensor that a place has, in order. A tensor without elements is at every place. The stored array
 * may be longer, because of padding at its end.
 */
export function chunksOf(shape: Shape, layout: Layout, placeOf: PlaceOf): readonly Chunk[] {
  if (elementCount(shape) === 0) return [wholeChunk(shape)];
  if (!isHeldAt(layout, placeOf)) return [];
  const { dims } = layout;
  const ranges = shape.map((size, dim) => dimRanges(size, dims[dim] ?? [], layout, placeOf));
  const chunks = boxesOf(ranges).map(chunkOfBox);
  const elements = chunks.reduce((sum, { stop }) => sum + stop, 0);
  const { start, stop } = flatRange(elements, layout, placeOf);
  return takeChunks(chunks, start, stop).map((chunk) => asRow(shape, chunk));
}

/** If the elements of a chunk are consecutive in the tensor, expresses them as a chunk of the whole tensor's box. */
function asRow(shape: Shape, { box, start, stop }: Chunk): Chunk {
  const first = box.findIndex((range) => range.stop - range.start > 1);
  const isRow = box.every(
    (range, dim) => first < 0 || dim <= first || range.stop - range.start === shape[dim],
  );
  if (!isRow) return { box, start, stop };
  const offset = box.reduce((sum, range, dim) => sum * (shape[dim] ?? 1) + range.start, 0);
  return { box: boxOf(shape), start: offset + start, stop: offset + stop };
}

/** The boxes that lie one after another in a part with these ranges of each dim. */
function boxesOf(ranges: readonly (readonly DimRange[])[]): readonly (readonly DimRange[])[] {
  const last = ranges.findLastIndex((own) => own.length > 1);
  return ranges.reduce<readonly (readonly DimRange[])[]>(
    (boxes, own, dim) => {
      // If a later dim has several ranges, they alternate within each index of this dim, so each index is a box.
      const each = dim < last ? own.flatMap(indicesOf) : own;
      return boxes.flatMap((box) => each.map((range) => [...box, range]));
    },
    [[]],
  );
}

function indicesOf({ start, stop }: DimRange): DimRange[] {
  return Array.from({ length: stop - start }, (_, index) => ({
    start: start + index,
    stop: start + index + 1,
  }));
}

function chunkOfBox(box: readonly DimRange[]): Chunk {
  return { box, start: 0, stop: elementCount(boxShape(box)) };
}

/** The elements `start` to `stop - 1` of all chunks together. */
function takeChunks(chunks: readonly Chunk[], start: number, stop: number): Chunk[] {
  let offset = 0;
  return chunks.flatMap((chunk) => {
    const shift = chunk.start - offset;
    const first = Math.max(chunk.start, start + shift);
    const end = Math.min(chunk.stop, stop + shift);
    offset += chunk.stop - chunk.start;
    return first < end ? [{ box: chunk.box, start: first, stop: end }] : [];
  });
}
