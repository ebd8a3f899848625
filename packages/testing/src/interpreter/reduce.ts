import type { Definitions } from './definition.ts';
import { at } from './nd-array.ts';

/** Sums add in ascending index order, in f64, and are rounded once. `max` of a NaN is NaN. */
export const reduce: Definitions<'sum' | 'max' | 'argMax' | 'cumsum'> = {
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
      let best = 0;
      for (let i = 1; i < at(x.shape, dim); i++) {
        if (x.get(index.toSpliced(dim, 0, i)) > x.get(index.toSpliced(dim, 0, best))) best = i;
      }
      out.set(index, best);
    }
  },
  cumsum: ({ dim }, out, x) => {
    for (const index of x.indices()) {
      const i = at(index, dim);
      const before = i === 0 ? 0 : out.get(index.with(dim, i - 1));
      out.set(index, before + x.get(index));
    }
  },
};

function without(index: readonly number[], dims: readonly number[]): number[] {
  return index.filter((_, dim) => !dims.includes(dim));
}
