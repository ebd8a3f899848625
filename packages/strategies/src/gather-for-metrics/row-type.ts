import { CollectiveMismatchError, type DType, dtypes, elementCount } from '@shardwise/core/extend';

/** The type of a row of values, which are the values of one item. */
export interface RowType {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

export function rowBytesOf({ dtype, shape }: RowType): number {
  return elementCount(shape) * dtypes[dtype].bytes;
}

export function formatRowType({ dtype, shape }: RowType): string {
  return [dtype, ...shape].join(' ');
}

/** The opposite of formatRowType. Throws CollectiveMismatchError for a text that is none of its results. */
export function parseRowType(text: string): RowType {
  const [dtype = '', ...sizes] = text.split(' ');
  const shape = sizes.map(Number);
  if (isDType(dtype) && shape.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    return { dtype, shape };
  }
  throw new CollectiveMismatchError({
    asked: 'the type of values of another rank',
    found: text,
    todo: 'Use one version of shardwise on all ranks',
  });
}

function isDType(text: string): text is DType {
  return Object.hasOwn(dtypes, text);
}
