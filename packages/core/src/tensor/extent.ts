import { elementCount } from '../shape.ts';
import type { Shape } from '../spec/dtype.ts';

/** Indices from `start` up to, not including, `stop` of a dim. */
export interface DimRange {
  readonly start: number;
  readonly stop: number;
}

/** A range of each dim of a tensor. */
export type Block = readonly DimRange[];

/** Elements of a block, row by row within it: from `start` up to, not including, `stop`. */
export interface Region {
  readonly block: Block;
  readonly start: number;
  readonly stop: number;
}

/**
 * Which elements of a whole tensor a rank has: regions in the order in which it has them, whatever
 * strategies cut the tensor. What it has may be longer, by padding behind them.
 */
export interface Extent {
  /** The shape of the whole tensor. */
  readonly shape: Shape;
  readonly regions: readonly Region[];
}

export function blockOf(shape: Shape): Block {
  return shape.map((stop) => ({ start: 0, stop }));
}

export function blockShape(block: Block): Shape {
  return block.map(({ start, stop }) => stop - start);
}

export function extentOfWhole(shape: Shape): Extent {
  return extentOfBlocks(shape, [blockOf(shape)]);
}

/** All of some blocks of a tensor, one behind the other. */
export function extentOfBlocks(shape: Shape, blocks: readonly Block[]): Extent {
  return {
    shape,
    regions: blocks.map((block) => ({ block, start: 0, stop: elementCount(blockShape(block)) })),
  };
}

/** Elements `start` to `stop - 1` of what an extent has. */
export function partOfExtent({ shape, regions }: Extent, start: number, stop: number): Extent {
  let offset = 0;
  const parts: Region[] = [];
  for (const region of regions) {
    const shift = region.start - offset;
    const first = Math.max(region.start, start + shift);
    const end = Math.min(region.stop, stop + shift);
    // Every rank holds an empty tensor.
    const isEmpty = region.start === region.stop;
    if (first < end || isEmpty)
      parts.push(isEmpty ? region : { block: region.block, start: first, stop: end });
    offset += region.stop - region.start;
  }
  return { shape, regions: parts };
}

export function sameBlock(a: Block, b: Block): boolean {
  return (
    a.length === b.length &&
    a.every(({ start, stop }, dim) => start === b[dim]?.start && stop === b[dim]?.stop)
  );
}
