import { ConfigError, formatShape, type Tensor } from '@shardwise/core/extend';
import { forEachTensor, mapTensors } from '../../modules/map-tensors.ts';

/** The inputs of one microbatch, and its number of rows. */
export interface MicrobatchInputs {
  readonly inputs: readonly unknown[];
  readonly rows: number;
}

/**
 * Cuts the rows (dim 0) of all tensors as torch.tensor_split does: if `most` does not divide them, the first
 * microbatches have one more. Microbatches that would have no rows are left out, except for the one of a batch without
 * rows. Tensors without dims and other values go to all microbatches. Throws ConfigError if tensors have different
 * numbers of rows.
 */
export function splitMicrobatches(inputs: readonly unknown[], most: number): MicrobatchInputs[] {
  const rows = rowsOf(inputs);
  const count = Math.max(1, Math.min(most, rows));
  const [least, more] = [Math.floor(rows / count), rows % count];
  let start = 0;
  return Array.from({ length: count }, (_, microbatch) => {
    const first = start;
    start += least + (microbatch < more ? 1 : 0);
    const stop = start;
    const part = (tensor: Tensor): Tensor =>
      tensor.ndim === 0 || count === 1 ? tensor : tensor.slice(0, first, stop);
    return { inputs: inputs.map((input) => mapTensors(input, part)), rows: stop - first };
  });
}

/** Returns the number of rows of a batch. Throws ConfigError if its tensors differ in it, and if no tensor has rows. */
export function rowsOf(inputs: readonly unknown[]): number {
  const tensors: Tensor[] = [];
  forEachTensor(inputs, (tensor) => {
    if (tensor.ndim > 0) tensors.push(tensor);
  });
  const [first] = tensors;
  const rows = first?.shape[0];
  const other = tensors.find(({ shape }) => shape[0] !== rows);
  if (first !== undefined && rows !== undefined && other === undefined) return rows;
  const shapes = tensors.map(({ shape }) => formatShape(shape)).join(', ');
  throw new ConfigError(
    {
      asked: 'a batch that a pipeline cuts into microbatches along dim 0',
      found: shapes === '' ? 'no tensor with rows' : `tensors of shapes ${shapes}`,
      todo: 'Give tensors that have one row for each element of the batch. Give values that are the same for all rows as numbers or as tensors without dims',
    },
    { shapes: tensors.map(({ shape }) => shape) },
  );
}
