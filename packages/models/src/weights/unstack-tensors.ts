import { dtypes, type DimRange, type HeldChunk, type Module } from '@shardwise/core/extend';
import { PretrainedModel } from '../model/pretrained-model.ts';
import type { StackedTensor } from '../model/stacked-tensor.ts';
import type { HeldTensors } from './held-tensors.ts';
import { transpose } from './transpose.ts';

/** Replaces stacked parameters by their parts, which files have as tensors of their own. */
export function unstackTensors(model: Module, { tensors, chunks }: HeldTensors): HeldTensors {
  if (!(model instanceof PretrainedModel)) return { tensors, chunks };
  const stacks = new Map(model.stackedTensors().map((stack) => [stack.name, stack]));
  return {
    tensors: tensors.flatMap((tensor) => {
      const stack = stacks.get(tensor.name);
      if (stack === undefined) return [tensor];
      const shape = shapeOfPart(tensor.shape, stack);
      return stack.parts.map((name) => ({ ...tensor, name, shape }));
    }),
    chunks: chunks.flatMap((chunk) => {
      const stack = stacks.get(chunk.name);
      return stack === undefined ? [chunk] : chunksOfParts(chunk, stack);
    }),
  };
}

function shapeOfPart(
  [, ...shape]: readonly number[],
  { transposed }: StackedTensor,
): readonly number[] {
  return transposed ? shape.toReversed() : shape;
}

/**
 * The chunks of the parts that a chunk of the whole has. Its elements in a part are rows of a box, of which the first
 * and the last one may be there in part.
 */
function chunksOfParts(chunk: HeldChunk, stack: StackedTensor): readonly HeldChunk[] {
  const { box, start, stop } = chunk;
  const [stacked = { start: 0, stop: 0 }, rows = stacked, columns = stacked] = box;
  const width = columns.stop - columns.start;
  const partElements = (rows.stop - rows.start) * width;
  const result: HeldChunk[] = [];
  for (let index = stacked.start; index < stacked.stop; index++) {
    const offset = (index - stacked.start) * partElements;
    const [first, end] = [Math.max(start, offset), Math.min(stop, offset + partElements)];
    for (let at = first; at < end;) {
      const row = Math.floor((at - offset) / width);
      const column = (at - offset) % width;
      // Whole rows are one box, and a part of a row is another.
      const wholeRows = column === 0 ? Math.floor((end - at) / width) : 0;
      const count = wholeRows > 0 ? wholeRows * width : Math.min(end - at, width - column);
      const own = [
        { start: rows.start + row, stop: rows.start + row + Math.max(1, wholeRows) },
        {
          start: columns.start + column,
          stop: columns.start + (wholeRows > 0 ? width : column + count),
        },
      ];
      result.push(chunkOfPart(chunk, stack, index, own, at - start));
      at += count;
    }
  }
  return result;
}

/** A box of a part, whose elements lie `skipped` elements after the beginning of the chunk. */
function chunkOfPart(
  chunk: HeldChunk,
  stack: StackedTensor,
  index: number,
  [rows = { start: 0, stop: 0 }, columns = rows]: readonly DimRange[],
  skipped: number,
): HeldChunk {
  const elementBytes = dtypes[chunk.dtype].bytes;
  const [height, width] = [rows.stop - rows.start, columns.stop - columns.start];
  return {
    name: stack.parts[index] ?? '',
    dtype: chunk.dtype,
    shape: shapeOfPart(chunk.shape, stack),
    box: stack.transposed ? [columns, rows] : [rows, columns],
    start: 0,
    stop: height * width,
    async read() {
      const all = await chunk.read();
      const first = skipped * elementBytes;
      const bytes = all.subarray(first, first + height * width * elementBytes);
      return stack.transposed ? transpose(bytes, height, width, elementBytes) : bytes;
    },
  };
}
