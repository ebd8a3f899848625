import {
  boxShape,
  type Chunk,
  CheckpointError,
  dtypes,
  elementCount,
  type Module,
  sameShape,
  type Shape,
  type SourcePart,
  type TensorReader,
  type TensorSource,
} from '@shardwise/core/extend';
import { PretrainedModel } from '../model/pretrained-model.ts';
import type { StackedTensor } from '../model/stacked-tensor.ts';
import { transpose } from './transpose.ts';

/**
 * A source in which the parts of stacked parameters, such as the matrices of experts, are one tensor, as in the model.
 * A rank reads only the parts, and of them the rows or columns, that it keeps. Throws CheckpointError if some parts of a
 * parameter are missing, or if they differ in shape or dtype.
 */
export function stackedSource(source: TensorSource, model: Module): TensorSource {
  if (!(model instanceof PretrainedModel)) return source;
  const stacks = new Map(
    model
      .stackedTensors()
      .filter(({ parts }) => parts.some((part) => source.get(part) !== undefined))
      .map((stack) => [stack.name, stack]),
  );
  if (stacks.size === 0) return source;
  for (const stack of stacks.values()) requireParts(source, stack);
  const parts = new Set([...stacks.values()].flatMap((stack) => stack.parts));
  return {
    ...source,
    names: [...source.names.filter((name) => !parts.has(name)), ...stacks.keys()],
    get(name) {
      const stack = stacks.get(name);
      const [first = ''] = stack?.parts ?? [];
      const type = source.get(stack === undefined ? name : first);
      if (stack === undefined || type === undefined) return type;
      const shape = stack.transposed ? type.shape.toReversed() : type.shape;
      return { name, dtype: type.dtype, shape: [stack.parts.length, ...shape] };
    },
    open() {
      const reader = source.open();
      return {
        async fill(name, chunk, target, part) {
          const stack = stacks.get(name);
          if (stack === undefined) await reader.fill(name, chunk, target, part);
          else await fillStack(source, reader, stack, chunk, target, part);
        },
        [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
      };
    },
  };
}

async function fillStack(
  source: TensorSource,
  reader: TensorReader,
  { parts, transposed }: StackedTensor,
  { box, start, stop }: Chunk,
  target: Uint8Array<ArrayBuffer>,
  part: SourcePart,
): Promise<void> {
  const [stacked = { start: 0, stop: 0 }, rows = stacked, columns = stacked] = box;
  const width = columns.stop - columns.start;
  const partElements = (rows.stop - rows.start) * width;
  for (let index = stacked.start; index < stacked.stop; index++) {
    const offset = (index - stacked.start) * partElements;
    const [first, end] = [Math.max(start, offset), Math.min(stop, offset + partElements)];
    const name = parts[index] ?? '';
    const elementBytes = dtypes[source.get(name)?.dtype ?? 'f32'].bytes;
    if (first >= end) continue;
    const to = target.subarray((first - start) * elementBytes, (end - start) * elementBytes);
    if (!transposed) {
      const own = { box: [rows, columns], start: first - offset, stop: end - offset };
      await reader.fill(name, own, to, part);
      continue;
    }
    // The rows that the elements lie in are columns of the stored matrix.
    const firstRow = Math.floor((first - offset) / width);
    const needed = {
      start: rows.start + firstRow,
      stop: rows.start + Math.ceil((end - offset) / width),
    };
    const stored = [columns, needed];
    const bytes = new Uint8Array(elementCount(boxShape(stored)) * elementBytes);
    await reader.fill(
      name,
      { box: stored, start: 0, stop: elementCount(boxShape(stored)) },
      bytes,
      part,
    );
    const inOrder = transpose(bytes, width, needed.stop - needed.start, elementBytes);
    const skipped = (first - offset - firstRow * width) * elementBytes;
    to.set(inOrder.subarray(skipped, skipped + to.byteLength));
  }
}

function requireParts(source: TensorSource, { name, parts }: StackedTensor): void {
  const types = parts.map((part) => source.get(part));
  const [first] = types;
  const missing = parts.filter((_, index) => types[index] === undefined);
  const isEqual = (shape: Shape | undefined): boolean =>
    shape !== undefined &&
    first !== undefined &&
    shape.length === 2 &&
    sameShape(shape, first.shape);
  const isWhole = types.every((type) => isEqual(type?.shape) && type?.dtype === first?.dtype);
  if (isWhole) return;
  throw new CheckpointError(
    {
      asked: `to load '${name}' of ${source.place}`,
      found:
        missing.length > 0
          ? `no ${missing.slice(0, 3).join(', ')} among its ${parts.length} parts`
          : `parts of different shapes or dtypes, such as ${parts[0]}`,
      todo: 'Load the files of a model with as many experts as its config says',
    },
    { name, missing },
  );
}
