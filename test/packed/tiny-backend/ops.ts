import {
  dtypes,
  type PrimitiveOp,
  type PrimitiveParams,
  type ValueType,
} from '@shardwise/core/spec';
import { conv2d, conv2dInput, conv2dWeight } from './conv2d.ts';
import { binary, unary } from './elementwise.ts';
import { offsetIn, offsetOf, type Place, placesOf } from './places.ts';
import { castLong, elementCount, emptyValue, numbersOf, type Value, valueOf } from './value.ts';

type Compute<K extends PrimitiveOp> = (
  params: PrimitiveParams[K],
  type: ValueType,
  inputs: readonly Value[],
) => Value;

/** What each op computes. */
export const ops: { readonly [K in PrimitiveOp]: Compute<K> } = {
  ...mapEntries(
    unary,
    (f) =>
      (_, type, [x]) =>
        valueOf(type, numbersOf(need(x)).map(f)),
  ),
  ...mapEntries(binary, (f) => (_, type, [a, b]) => {
    const [left, right] = [numbersOf(need(a)), numbersOf(need(b))];
    const isInt = type.dtype === 'i32';
    return valueOf(
      type,
      left.map((x, i) => f(x, right[i] ?? 0, isInt)),
    );
  }),
  cast: (_, type, [x]) => {
    const value = need(x);
    return value.dtype === 'i64' ? castLong(value, type) : valueOf(type, numbersOf(value));
  },
  constant: ({ value }, type) =>
    valueOf(
      type,
      Array.from({ length: elementCount(type.shape) }, () => value),
    ),
  iota: ({ dim }, type) =>
    valueOf(
      type,
      Array.from(placesOf(type.shape), (place) => place[dim] ?? 0),
    ),
  random: (_, type, [key]) => {
    const [first = 0, second = 0] = numbersOf(need(key));
    return valueOf(
      type,
      Array.from({ length: elementCount(type.shape) }, (__, i) => randomBits(first, second, i)),
    );
  },

  reshape: (_, type, [x]) => ({ ...type, bytes: need(x).bytes.slice() }),
  permute: ({ order }, type, [x]) =>
    moved(type, need(x), (place) => place.map((__, dim) => place[order.indexOf(dim)] ?? 0)),
  expand: (_, type, [x]) => {
    const source = need(x);
    return moved(type, source, (place) =>
      place.map((index, dim) => (source.shape[dim] === 1 ? 0 : index)),
    );
  },
  slice: ({ starts, steps }, type, [x]) =>
    moved(type, need(x), (place) =>
      place.map((index, dim) => (starts[dim] ?? 0) + index * (steps[dim] ?? 1)),
    ),
  pad: ({ before, value }, type, [x]) => {
    const source = need(x);
    const padding = valueOf({ shape: [], dtype: type.dtype }, [value]);
    return collected(type, (place) => {
      const from = place.map((index, dim) => index - (before[dim] ?? 0));
      const isInside = from.every((index, dim) => index >= 0 && index < (source.shape[dim] ?? 0));
      return isInside ? [source, offsetOf(source.shape, from)] : [padding, 0];
    });
  },
  concat: ({ dim }, type, inputs) =>
    collected(type, (place) => {
      let index = place[dim] ?? 0;
      for (const x of inputs) {
        const size = x.shape[dim] ?? 0;
        if (index < size) return [x, offsetOf(x.shape, place.with(dim, index))];
        index -= size;
      }
      throw new RangeError('a place beyond the last part');
    }),
  where: (_, type, [condition, a, b]) => {
    const chosen = numbersOf(need(condition));
    const [yes, no] = [need(a), need(b)];
    let next = 0;
    return collected(type, () => {
      const at = next++;
      return [chosen[at] === 0 ? no : yes, at];
    });
  },
  gather: ({ dim }, type, [x, index]) => {
    const from = numbersOf(need(index));
    let next = 0;
    return moved(type, need(x), (place) => place.with(dim, from[next++] ?? 0));
  },
  indexSelect: ({ dim }, type, [x, index]) => {
    const rows = numbersOf(need(index));
    return moved(type, need(x), (place) => place.with(dim, rows[place[dim] ?? 0] ?? 0));
  },
  scatterAdd: ({ dim }, type, [x, index, source]) => {
    const to = numbersOf(need(index));
    const places = [...placesOf(need(index).shape)];
    return added(type, need(x), need(source), places, (place, at) => place.with(dim, to[at] ?? 0));
  },
  scatter: ({ dim }, type, [x, index, source]) => {
    const to = numbersOf(need(index));
    const size = dtypes[type.dtype].bytes;
    const out = { ...type, bytes: need(x).bytes.slice() };
    for (const [at, place] of [...placesOf(need(index).shape)].entries()) {
      const element = need(source).bytes.subarray(at * size, (at + 1) * size);
      out.bytes.set(element, offsetOf(type.shape, place.with(dim, to[at] ?? 0)) * size);
    }
    return out;
  },
  indexAdd: ({ dim }, type, [x, index, source]) => {
    const rows = numbersOf(need(index));
    const places = [...placesOf(need(source).shape)];
    return added(type, need(x), need(source), places, (place) =>
      place.with(dim, rows[place[dim] ?? 0] ?? 0),
    );
  },

  sum: ({ dims }, type, [x]) => reduced(type, need(x), dims, 0, (a, b) => a + b),
  max: ({ dims }, type, [x]) => reduced(type, need(x), dims, -Infinity, Math.max),
  argMax: ({ dim }, type, [x]) => {
    const source = need(x);
    const numbers = numbersOf(source);
    return valueOf(
      type,
      Array.from(placesOf(type.shape), (place) => {
        let best = 0;
        let most = -Infinity;
        for (let index = 0; index < (source.shape[dim] ?? 0); index++) {
          const value = numbers[offsetOf(source.shape, place.toSpliced(dim, 0, index))] ?? 0;
          if (Number.isNaN(value)) return index;
          if (value > most) [best, most] = [index, value];
        }
        return best;
      }),
    );
  },
  argSort: ({ dim, descending }, type, [x]) => {
    const numbers = numbersOf(need(x));
    const order: number[] = Array.from(numbers, () => 0);
    const rank = (value: number): number => (Number.isNaN(value) ? 1 : 0);
    for (const place of placesOf(type.shape)) {
      if ((place[dim] ?? 0) > 0) continue;
      const offsets = Array.from({ length: type.shape[dim] ?? 0 }, (__, i) =>
        offsetOf(type.shape, place.with(dim, i)),
      );
      const sorted = [...offsets.keys()].sort((i, j) => {
        const [a, b] = [numbers[offsets[i] ?? 0] ?? 0, numbers[offsets[j] ?? 0] ?? 0];
        const ascending = rank(a) - rank(b) || Number(a > b) - Number(a < b);
        return descending ? -ascending : ascending;
      });
      for (const [i, from] of sorted.entries()) order[offsets[i] ?? 0] = from;
    }
    return valueOf(type, order);
  },
  cumsum: ({ dim, reverse }, type, [x]) => {
    const numbers = numbersOf(need(x));
    const places = [...placesOf(type.shape)];
    for (const place of reverse ? places.toReversed() : places) {
      const index = (place[dim] ?? 0) + (reverse ? 1 : -1);
      if (index < 0 || index >= (type.shape[dim] ?? 0)) continue;
      const at = offsetOf(type.shape, place);
      const before = offsetOf(type.shape, place.with(dim, index));
      numbers[at] = (numbers[at] ?? 0) + (numbers[before] ?? 0);
    }
    return valueOf(type, numbers);
  },

  matmul: ({ transposeA, transposeB }, type, [a, b]) => {
    const [left, right] = [need(a), need(b)];
    const [x, y] = [numbersOf(left), numbersOf(right)];
    const depth = left.shape.at(transposeA ? -2 : -1) ?? 0;
    return valueOf(
      type,
      Array.from(placesOf(type.shape), (place) => {
        const batch = place.slice(0, -2);
        const [row = 0, column = 0] = place.slice(-2);
        let sum = 0;
        for (let k = 0; k < depth; k++) {
          const i = offsetIn(left.shape, [...batch, ...(transposeA ? [k, row] : [row, k])]);
          const j = offsetIn(right.shape, [...batch, ...(transposeB ? [column, k] : [k, column])]);
          sum += (x[i] ?? 0) * (y[j] ?? 0);
        }
        return sum;
      }),
    );
  },
  conv2d: (params, type, [x, w]) => conv2d(params, type, need(x), need(w)),
  conv2dInput: (params, type, [dy, w]) => conv2dInput(params, type, need(dy), need(w)),
  conv2dWeight: (params, type, [x, dy]) => conv2dWeight(params, type, need(x), need(dy)),
};

function mapEntries<K extends PrimitiveOp, F>(
  functions: Readonly<Record<K, F>>,
  toOp: (f: F) => Compute<K>,
): Record<K, Compute<K>> {
  const entries = Object.entries<F>(functions).map(([name, f]) => [name, toOp(f)]);
  return Object.fromEntries(entries);
}

/** Narrows the type of an input. A program always gives an op its inputs. */
function need(x: Value | undefined): Value {
  if (x === undefined) throw new RangeError('an input that is not there');
  return x;
}

/** Makes a value whose elements are copied. `sourceOf` returns the source and the index of each element. */
function collected(type: ValueType, sourceOf: (place: Place) => readonly [Value, number]): Value {
  const out = emptyValue(type);
  const size = dtypes[type.dtype].bytes;
  let at = 0;
  for (const place of placesOf(type.shape)) {
    const [source, from] = sourceOf(place);
    out.bytes.set(source.bytes.subarray(from * size, (from + 1) * size), at);
    at += size;
  }
  return out;
}

function moved(type: ValueType, x: Value, from: (place: Place) => Place): Value {
  return collected(type, (place) => [x, offsetOf(x.shape, from(place))]);
}

function added(
  type: ValueType,
  x: Value,
  source: Value,
  places: readonly Place[],
  to: (place: Place, at: number) => Place,
): Value {
  const [sums, terms] = [numbersOf(x), numbersOf(source)];
  for (const [at, place] of places.entries()) {
    const target = offsetOf(type.shape, to(place, at));
    sums[target] = (sums[target] ?? 0) + (terms[offsetOf(source.shape, place)] ?? 0);
  }
  return valueOf(type, sums);
}

function reduced(
  type: ValueType,
  x: Value,
  dims: readonly number[],
  start: number,
  combine: (a: number, b: number) => number,
): Value {
  const out = new Float64Array(elementCount(type.shape)).fill(start);
  const numbers = numbersOf(x);
  let next = 0;
  for (const place of placesOf(x.shape)) {
    const at = offsetOf(
      type.shape,
      place.filter((_, dim) => !dims.includes(dim)),
    );
    out[at] = combine(out[at] ?? 0, numbers[next++] ?? 0);
  }
  return valueOf(type, out);
}

/** Computes the bits as core/spec/op.ts defines `random`, in uint32 with wrap-around. */
function randomBits(first: number, second: number, index: number): number {
  let x = (Math.imul(index, 0x9e3779b9) + first) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  x = ((x ^ (x >>> 16)) + second) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return x ^ (x >>> 16);
}
