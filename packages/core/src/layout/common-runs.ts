import { elementCount } from '../base/shape.ts';
import { boxShape, type Chunk, type DimRange } from './chunks.ts';

/** Elements that are consecutive in two chunks. */
export interface CommonRun {
  /** The number of elements before the run in the first chunk. */
  readonly first: number;
  /** The number of elements before the run in the second chunk. */
  readonly second: number;
  readonly count: number;
}

/** The elements that two chunks of one tensor have in common, in the order of the tensor. */
export function* commonRuns(first: Chunk, second: Chunk): Generator<CommonRun> {
  const common = first.box.map((range, dim) => overlap(range, second.box[dim] ?? range));
  if (elementCount(boxShape(common)) === 0) return;
  // The elements from this dim on are consecutive in both chunks.
  let runDim = Math.max(0, common.length - 1);
  while (runDim > 0 && isWhole(common, [first, second], runDim)) runDim--;
  const run = common[runDim] ?? { start: 0, stop: 1 };
  const innerCount = elementCount(boxShape(common.slice(runDim + 1)));
  const count = (run.stop - run.start) * innerCount;
  const rows = common.slice(0, runDim);
  const [outermost] = rows;
  if (outermost !== undefined) {
    rows[0] = overlap(outermost, overlap(outerRange(first), outerRange(second)));
  }
  for (const row of indicesOf(rows)) {
    const at = [...row, run.start];
    const inFirst = offsetIn(first, at);
    const inSecond = offsetIn(second, at);
    const start = Math.max(0, first.start - inFirst, second.start - inSecond);
    const stop = Math.min(count, first.stop - inFirst, second.stop - inSecond);
    if (start >= stop) continue;
    yield {
      first: inFirst + start - first.start,
      second: inSecond + start - second.start,
      count: stop - start,
    };
  }
}

function overlap(a: DimRange, b: DimRange): DimRange {
  const start = Math.max(a.start, b.start);
  return { start, stop: Math.max(start, Math.min(a.stop, b.stop)) };
}

function isWhole(common: readonly DimRange[], chunks: readonly Chunk[], dim: number): boolean {
  const sizeOf = (range: DimRange | undefined): number => (range?.stop ?? 0) - (range?.start ?? 0);
  return chunks.every(({ box }) => sizeOf(box[dim]) === sizeOf(common[dim]));
}

/** The indices of the first dim of which a chunk has elements. */
function outerRange({ box, start, stop }: Chunk): DimRange {
  const rowElements = elementCount(boxShape(box.slice(1)));
  const first = box[0]?.start ?? 0;
  return {
    start: first + Math.floor(start / rowElements),
    stop: first + Math.ceil(stop / rowElements),
  };
}

/** All combinations of indices. The last index changes fastest. */
function* indicesOf(ranges: readonly DimRange[]): Generator<readonly number[]> {
  const [range, ...inner] = ranges;
  if (range === undefined) {
    yield [];
    return;
  }
  for (let index = range.start; index < range.stop; index++) {
    for (const rest of indicesOf(inner)) yield [index, ...rest];
  }
}

/** The offset of an element in the box of a chunk. Indices that are not given are the first of the box. */
function offsetIn({ box }: Chunk, index: readonly number[]): number {
  let offset = 0;
  for (const [dim, { start, stop }] of box.entries()) {
    offset = offset * (stop - start) + (index[dim] ?? start) - start;
  }
  return offset;
}
