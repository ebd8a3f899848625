import type { Definitions } from './definition.ts';
import { at } from './nd-array.ts';

/** Values of repeated indices are added in ascending order of the source. */
export const indexing: Definitions<
  'gather' | 'scatterAdd' | 'scatter' | 'indexSelect' | 'indexAdd'
> = {
  gather: ({ dim }, out, x, index) => {
    for (const i of out.indices()) out.set(i, x.get(i.with(dim, index.get(i))));
  },
  scatterAdd: ({ dim }, out, x, index, source) => {
    out.values.set(x.values);
    for (const i of index.indices()) out.add(i.with(dim, index.get(i)), source.get(i));
  },
  scatter: ({ dim }, out, x, index, source) => {
    out.values.set(x.values);
    for (const i of index.indices()) out.set(i.with(dim, index.get(i)), source.get(i));
  },
  indexSelect: ({ dim }, out, x, index) => {
    for (const i of out.indices()) out.set(i, x.get(i.with(dim, index.get([at(i, dim)]))));
  },
  indexAdd: ({ dim }, out, x, index, source) => {
    out.values.set(x.values);
    for (const i of source.indices()) out.add(i.with(dim, index.get([at(i, dim)])), source.get(i));
  },
};
