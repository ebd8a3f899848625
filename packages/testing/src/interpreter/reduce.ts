import type { Definitions } from './definition.ts';
import { at } from './nd-array.ts';

/** Sums are added in f64 in ascending index order, and rounded once. `max` is NaN if an element is NaN. */
export const reduce: Definitions<'sum' | 'max' | 'argMax' | 'argSort' | 'cumsum'> = {
  sum: ({ dims }, out, x) => {
    for (const index of x.indices()) out.add(without(index, dims), x.get(index));
  },
  max: ({ dims }, out, x) => {
    out.values.fill(-Infinity);
    for (const index of x.indices()) {
      const kept = without(index, dims);
      out.set(kept, Math.max(out.get(kept), x.get(index)));
    }
  },
  argMax: ({ dim }, out, x) => {
    for (const index of out.indices()) {
      const row = Array.from({ length: at(x.shape, dim) }, (_, i) =>
        x.get(index.toSpliced(dim, 0, i)),
      );
      const firstNaN = row.findIndex(Number.isNaN);
      out.set(
        index,
        firstNaN >= 0
          ? firstNaN
          : row.reduce((best, value, i) => (value > at(row, best) ? i : best), 0),
      );
    }
  },
  argSort: ({ dim, descending }, out, x) => {
    const rank = (value: number): number => (Number.isNaN(value) ? 1 : 0);
    const compare = (a: number, b: number): number =>
      rank(a) - rank(b) || Number(a > b) - Number(a < b);
    for (const index of out.indices()) {
      if (at(index, dim) > 0) continue;
      const row = Array.from({ length: at(x.shape, dim) }, (_, i) => x.get(index.with(dim, i)));
      const order = Array.from(row.keys()).sort((i, j) => {
        const ascending = compare(at(row, i), at(row, j));
        return descending ? -ascending : ascending;
      });
      order.forEach((place, i) => out.set(index.with(dim, i), place));
    }
  },
  cumsum: ({ dim, reverse }, out, x) => {
    const last = at(x.shape, dim) - 1;
    for (const index of x.indices()) {
      const i = at(index, dim);
      const place = index.with(dim, reverse ? last - i : i);
      const before = i === 0 ? 0 : out.get(index.with(dim, reverse ? last - i + 1 : i - 1));
      out.set(place, before + x.get(place));
    }
  },
};

function without(index: readonly number[], dims: readonly number[]): number[] {
  return index.filter((_, dim) => !dims.includes(dim));
}
