import {
  blockOf,
  blockShape,
  elementCount,
  type Region,
  sameBlock,
  type Shape,
} from '@shardwise/core/extend';

/**
 * A region of a tensor of some shape as text: nothing for all of it, `[0:4]` for elements of the
 * tensor, `[0:8, 2:4]` for a block, and `[0:8, 2:4][0:4]` for elements of a block.
 */
export function formatRegion(shape: Shape, { block, start, stop }: Region): string {
  const range = (first: number, end: number): string => `${first}:${end}`;
  const isWhole = start === 0 && stop === elementCount(blockShape(block));
  const blockText = sameBlock(block, blockOf(shape))
    ? ''
    : `[${block.map((each) => range(each.start, each.stop)).join(', ')}]`;
  return `${blockText}${isWhole ? '' : `[${range(start, stop)}]`}`;
}
