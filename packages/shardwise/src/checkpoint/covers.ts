import {
  type Block,
  blockShape,
  elementCount,
  type Region,
  type Shape,
} from '@shardwise/core/extend';

/** More blocks of a tensor than any layout makes; who reads an index must not have to compare them all. */
const MAX_BLOCKS = 4096;

/** Whether regions of a tensor have each of its elements once. */
export function covers(shape: Shape, regions: readonly Region[]): boolean {
  const byBlock = Map.groupBy(regions, ({ block }) => JSON.stringify(block));
  if (byBlock.size > MAX_BLOCKS) return false;
  const blocks: Block[] = [];
  let elements = 0;
  for (const parts of byBlock.values()) {
    const [first] = parts;
    if (first === undefined || !isWithin(first.block, shape)) return false;
    const count = elementCount(blockShape(first.block));
    if (!follow(parts, count)) return false;
    blocks.push(first.block);
    elements += count;
  }
  return elements === elementCount(shape) && !overlap(blocks);
}

function isWithin(block: Block, shape: Shape): boolean {
  return (
    block.length === shape.length &&
    block.every(({ start, stop }, dim) => start >= 0 && start <= stop && stop <= (shape[dim] ?? 0))
  );
}

/** Whether the parts of a block follow each other from its first to its last element. */
function follow(parts: readonly Region[], count: number): boolean {
  let end = 0;
  for (const { start, stop } of parts.toSorted((a, b) => a.start - b.start || a.stop - b.stop)) {
    if (start !== end || stop < start) return false;
    end = stop;
  }
  return end === count;
}

function overlap(blocks: readonly Block[]): boolean {
  const sorted = blocks.toSorted((a, b) => (a[0]?.start ?? 0) - (b[0]?.start ?? 0));
  return sorted.some((block, index) => {
    for (const other of sorted.slice(index + 1)) {
      if ((other[0]?.start ?? 0) >= (block[0]?.stop ?? 1)) return false;
      if (meet(block, other)) return true;
    }
    return false;
  });
}

function meet(a: Block, b: Block): boolean {
  return a.every(({ start, stop }, dim) => {
    const other = b[dim] ?? { start: 0, stop: 0 };
    return Math.max(start, other.start) < Math.min(stop, other.stop);
  });
}
