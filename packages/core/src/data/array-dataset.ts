import { formatShape } from '../base/shape.ts';
import { DataError, ShapeError } from '../spec/errors.ts';
import { checkIndex, type Dataset } from './dataset.ts';
import { sampleFault } from './sample-fault.ts';
import { type ArrayTree, mapArrays, type NDArray, ndArrayView } from '../tensor/nd-array.ts';

/**
 * A dataset whose items are the rows of arrays of equal length (torch's TensorDataset).
 * Shape: each [N, ...] -> [...].
 */
export class ArrayDataset<Sample extends ArrayTree> implements Dataset<Sample> {
  readonly length: number;
  readonly #arrays: Sample;

  /** Throws DataError for a value that is not an array, and ShapeError if the arrays differ in their first dim. */
  constructor(arrays: Sample) {
    const fault = sampleFault(arrays, '');
    if (fault !== undefined) {
      throw new DataError({
        asked: 'a dataset of array rows',
        found: fault,
        todo: 'Give arrays, alone or by name: { x: data.ndArray(pixels, [60_000, 784]), y: data.ndArray(labels) }',
      });
    }
    const shapes: string[] = [];
    const lengths = new Set<number>();
    mapArrays(arrays, (array, path) => {
      shapes.push(`${path} ${formatShape(array.shape)}`.trim());
      lengths.add(array.shape[0] ?? Number.NaN);
      return array;
    });
    const [length] = lengths;
    if (length === undefined || Number.isNaN(length) || lengths.size !== 1) {
      throw new ShapeError(
        {
          asked: 'a dataset of array rows',
          found: shapes.join(', ') || 'no arrays',
          todo: 'Give at least one array, and all of them the same first dim',
        },
        { shapes },
      );
    }
    this.length = length;
    this.#arrays = arrays;
  }

  /** Views of the rows; nothing is copied. */
  get(index: number): Sample {
    checkIndex(index, this.length);
    return mapArrays(this.#arrays, (array) => row(array, index));
  }
}

function row(array: NDArray, index: number): NDArray {
  const shape = array.shape.slice(1);
  const { buffer, byteOffset, byteLength } = array.data;
  const rowBytes = byteLength / (array.shape[0] ?? 1);
  return ndArrayView(array.dtype, shape, buffer, byteOffset + index * rowBytes);
}
