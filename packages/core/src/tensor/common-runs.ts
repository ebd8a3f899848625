import { elementCount } from '../shape.ts';
import { blockShape, type DimRange, type Region } from './extent.ts';

/** Elements that stand in a row in two regions. */
export interface CommonRun {
  /** Elements from the start of each region. */
  readonly first: number;
  readonly second: number;
  readonly count: number;
}

/** What two regions of one tensor have in common, in the order of its elements. */
export function* commonRuns(first: Region, second: Region): Generator<CommonRun> {
  const common = first.block.map((range, dim) => overlap(range, second.block[dim] ?? range));
  if (elementCount(blockShape(common)) === 0) return;
  // From this dim on, a run goes through both.
  let runDim = Math.max(0, common.length - 1);
  while (runDim > 0 && isWhole(common, [first, second], runDim)) runDim--;
  const run = common[runDim] ?? { start: 0, stop: 1 };
  const innerCount = elementCount(blockShape(common.slice(runDim + 1)));
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

function isWhole(common: readonly DimRange[], regions: readonly Region[], dim: number): boolean {
  const sizeOf = (range: DimRange | undefined): number => (range?.stop ?? 0) - (range?.start ?? 0);
  return regions.every(({ block }) => sizeOf(block[dim]) === sizeOf(common[dim]));
}

/** Indices of the first dim that a region has elements of. */
function outerRange({ block, start, stop }: Region): DimRange {
  const rowElements = elementCount(blockShape(block.slice(1)));
  const first = block[0]?.start ?? 0;
  return {
    start: first + Math.floor(start / rowElements),
    stop: first + Math.ceil(stop / rowElements),
  };
}

/** All combinations of indices, the last one running fastest. */
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

/** From the start of the block, of the element whose further indices are the block's first ones. */
function offsetIn({ block }: Region, index: readonly number[]): number {
  let offset = 0;
  for (const [dim, { start, stop }] of block.entries()) {
    offset = offset * (stop - start) + (index[dim] ?? start) - start;
  }
  return offset;
}
