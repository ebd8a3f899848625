import { formatShape, sameShape } from '../base/shape.ts';
import { dtypes } from '../spec/dtype.ts';
import { DataError, ShapeError } from '../spec/errors.ts';
import { type ArrayTree, isNDArray, type NDArray, ndArrayView } from '../tensor/nd-array.ts';
import { sampleFault } from './sample-fault.ts';

/**
 * Stacks samples that have the same structure into new arrays. `indices` are the indices of the samples in their
 * dataset, which errors name. Throws ShapeError or DataError if the samples differ, and DataError for a sample that is
 * not made of arrays. Shape: B times [...] -> [B, ...].
 */
export function collate<Sample extends ArrayTree>(
  samples: readonly Sample[],
  indices?: readonly number[],
): Sample;
export function collate(samples: readonly ArrayTree[], indices?: readonly number[]): ArrayTree {
  const nameOf = (position: number): string =>
    indices === undefined ? `sample ${position}` : `item ${indices[position]} of the dataset`;
  for (const [position, sample] of samples.entries()) {
    const fault = sampleFault(sample, '');
    if (fault === undefined) continue;
    throw new DataError(
      {
        asked: `to put ${nameOf(position)} into a batch`,
        found: fault,
        todo: 'Return arrays from get(), alone or by name: data.ndArray(Float32Array.of(5), []), { x: data.ndArray(…), y: data.ndArray(…) }; make tensors of the batch with fromArray',
      },
      { sample: position, ...(indices === undefined ? {} : { index: indices[position] }) },
    );
  }
  return stackTrees(samples, 'the sample', nameOf);
}

type NameOf = (position: number) => string;

function stackTrees(trees: readonly ArrayTree[], path: string, nameOf: NameOf): ArrayTree {
  const [first] = trees;
  if (first === undefined) {
    throw new DataError({
      asked: 'a batch of samples',
      found: 'no samples',
      todo: 'Give at least one sample',
    });
  }
  const structure = structureOf(first);
  for (const [i, tree] of trees.entries()) {
    if (structureOf(tree) === structure) continue;
    throw new DataError(
      {
        asked: 'to stack samples into a batch',
        found: `${path} is ${structure} in ${nameOf(0)} and ${structureOf(tree)} in ${nameOf(i)}`,
        todo: 'Give all samples the same parts, or give a collate function',
      },
      { path, sample: i },
    );
  }
  if (isNDArray(first)) return stackArrays(first, trees.filter(isNDArray), path, nameOf);
  const parts = trees.map((tree) => (isNDArray(tree) ? [] : Object.values<ArrayTree>(tree)));
  const stacked = Object.keys(first).map((name, part) => {
    const column = parts.flatMap((values) => values.slice(part, part + 1));
    return [name, stackTrees(column, `${path}.${name}`, nameOf)] as const;
  });
  return Array.isArray(first) ? stacked.map(([, tree]) => tree) : Object.fromEntries(stacked);
}

function structureOf(tree: ArrayTree): string {
  if (isNDArray(tree)) return 'an array';
  return `${Array.isArray(tree) ? 'a list' : 'a record'} of ${Object.keys(tree).join(', ')}`;
}

function stackArrays(
  first: NDArray,
  arrays: readonly NDArray[],
  path: string,
  nameOf: NameOf,
): NDArray {
  const { dtype } = first;
  const bytes = first.data.length * dtypes[dtype].bytes;
  const stacked = new Uint8Array(arrays.length * bytes);
  for (const [i, array] of arrays.entries()) {
    if (array.dtype !== dtype || !sameShape(array.shape, first.shape)) {
      const [mine, other] = [first, array].map((one) => `${one.dtype} ${formatShape(one.shape)}`);
      throw new ShapeError(
        {
          asked: 'to stack samples into a batch',
          found: `${path} is ${mine} in ${nameOf(0)} and ${other} in ${nameOf(i)}`,
          todo: 'Crop or pad the samples to one shape, or give a collate function',
        },
        { path, sample: i },
      );
    }
    const { buffer, byteOffset, byteLength } = array.data;
    stacked.set(new Uint8Array(buffer, byteOffset, byteLength), i * bytes);
  }
  return ndArrayView(dtype, [arrays.length, ...first.shape], stacked.buffer);
}
