import type { Sizes, SizeSymbol } from '../spec/backend.ts';

/**
 * The distances, in multiples of `spacing`, from the value that was seen of a symbol to the values that are tried. Each
 * list has even and odd distances, so that a number that depends on whether a size is even is noticed.
 */
const sampleOffsets = [
  [1, 2, 4, 7],
  [3, 6, 8, 13],
  [5, 9, 10, 18],
  [0, 1, 2, 3],
] as const;

/** If the seen value is below this many times `spacing`, larger sizes are tried, because there are too few smaller. */
const FEW_SIZES = 20;

/**
 * Choices of points to look at, the best choice first. Each choice has a base point, one point for each symbol that
 * differs from the base in that symbol alone, and two points that differ from it in all symbols. The sizes are below
 * those seen, because programs have limits, such as the number of rows of a table. The largest size seen may be such a
 * limit, so the choice that contains it comes last. No two symbols get the same number, because programs merge what is
 * equal.
 */
export function samplePoints(symbols: readonly SizeSymbol[]): readonly (readonly Sizes[])[] {
  return sampleOffsets.map((offsets) => {
    const taken = new Set<number>();
    const numbers = symbols.map((symbol) => {
      let shift = 0;
      let tried = numbersNear(symbol, offsets, shift);
      while (tried.some((number) => taken.has(number))) {
        tried = numbersNear(symbol, offsets, ++shift);
      }
      for (const number of tried) taken.add(number);
      return tried;
    });
    const [base = [], other = [], ...others] = offsets.map((_, at) =>
      numbers.map((tried) => tried[at] ?? 0),
    );
    return [base, ...other.map((size, index) => base.with(index, size)), ...others];
  });
}

function numbersNear(
  { seen, spacing }: SizeSymbol,
  offsets: readonly number[],
  shift: number,
): readonly number[] {
  const direction = seen < FEW_SIZES * spacing ? spacing : -spacing;
  return offsets.map((offset) => seen + (offset + shift) * direction);
}
