import type { Definitions } from './definition.ts';
import { at } from './nd-array.ts';

type Movement = 'reshape' | 'permute' | 'expand' | 'slice' | 'pad' | 'concat';

export const movement: Definitions<Movement> = {
  reshape: (_params, out, x) => out.values.set(x.values),
  permute: ({ order }, out, x) => {
    for (const index of x.indices()) {
      out.set(
        order.map((dim) => at(index, dim)),
        x.get(index),
      );
    }
  },
  expand: (_params, out, x) => {
    for (const index of out.indices()) {
      out.set(index, x.get(index.map((i, dim) => (x.shape[dim] === 1 ? 0 : i))));
    }
  },
  slice: ({ starts, steps }, out, x) => {
    for (const index of out.indices()) {
      out.set(index, x.get(index.map((i, dim) => at(starts, dim) + i * at(steps, dim))));
    }
  },
  pad: ({ before, value }, out, x) => {
    out.values.fill(value);
    for (const index of x.indices()) {
      out.set(
        index.map((i, dim) => at(before, dim) + i),
        x.get(index),
      );
    }
  },
  concat: ({ dim }, out, ...inputs) => {
    let start = 0;
    for (const x of inputs) {
      for (const index of x.indices())
        out.set(index.with(dim, start + at(index, dim)), x.get(index));
      start += at(x.shape, dim);
    }
  },
};
