import { elementCount } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { boxOf, boxShape, type Chunk, sameBox } from './chunks.ts';

/**
 * Formats a chunk of a tensor as text. The text is empty for the whole tensor, `[0:4]` for elements of the tensor,
 * `[0:8, 2:4]` for a box, and `[0:8, 2:4][0:4]` for elements of a box.
 */
export function formatChunk(shape: Shape, { box, start, stop }: Chunk): string {
  const range = (first: number, end: number): string => `${first}:${end}`;
  const isWhole = start === 0 && stop === elementCount(boxShape(box));
  const boxText = sameBox(box, boxOf(shape))
    ? ''
    : `[${box.map((each) => range(each.start, each.stop)).join(', ')}]`;
  return `${boxText}${isWhole ? '' : `[${range(start, stop)}]`}`;
}
