import type { Sizes, SizeSymbol } from '../spec/backend.ts';

/** A value of a program. */
interface SizedValue {
  readonly op?: string;
  readonly shape: readonly number[];
}

/**
 * Wraps `evaluateAt`: the result throws a RangeError if other values have sizes of 0 or 1 than at the sizes seen. Values with
 * such sizes are empty or repeated, and programs compute them in another way. A program is therefore only looked at
 * where the same values have these sizes as in its runs.
 */
export function rejectDegenerateSizes<T>(
  symbols: readonly SizeSymbol[],
  evaluateAt: (sizes: Sizes) => T,
  valuesOf: (found: T) => Iterable<SizedValue>,
): (sizes: Sizes) => T {
  let usual: string | undefined;
  return (sizes) => {
    usual ??= specialSizes(valuesOf(evaluateAt(symbols.map(({ seen }) => seen))));
    const found = evaluateAt(sizes);
    if (specialSizes(valuesOf(found)) !== usual) throw new RangeError('sizes that are special');
    return found;
  };
}

/** Lists which dims of the values have size 0 or 1. Throws RangeError for sizes that no value can have. */
function specialSizes(values: Iterable<SizedValue>): string {
  const found = new Set<string>();
  for (const { op = 'input', shape } of values) {
    for (const [dim, size] of shape.entries()) {
      if (!Number.isInteger(size) || size < 0) throw new RangeError(`a size of ${size}`);
      if (size < 2) found.add(`${op} ${shape.length} ${dim} ${size}`);
    }
  }
  return [...found].toSorted().join();
}
