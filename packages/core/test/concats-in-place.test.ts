import { describe, expect, it, test } from 'vitest';
import { takeConcats } from '../src/realize/segments/concats-in-place.ts';
import { mapMemory, type Place } from '../src/realize/segments/memory-map.ts';
import { segment } from '../src/realize/segments/segment.ts';
import { Sources } from '../src/realize/segments/sources.ts';
import {
  byteLengthOf,
  isCompute,
  type Value,
  type ValueGraph,
} from '../src/realize/values/values.ts';

const ROWS = 64;
const BYTES = ROWS * 4 * 4;
const base = { params: {}, shape: [ROWS, 4], dtype: 'f32' } as const;

const leaf: Value = { ...base, op: 'input', inputs: [] };
const neg = (of: number, shape: readonly number[] = base.shape): Value => ({
  ...base,
  op: 'neg',
  inputs: [of],
  shape,
});
const add = (...inputs: number[]): Value => ({ ...base, op: 'add', inputs });
const joined = (inputs: readonly number[], rows: number, dim = 0): Value => ({
  ...base,
  op: 'concat',
  params: { dim },
  inputs,
  shape: dim === 0 ? [rows, 4] : [ROWS, (4 * rows) / ROWS],
});
const reduced = (of: number, rows: number): Value => ({
  ...base,
  op: 'allReduce',
  params: { axis: 'dp', size: 2, rank: 0, reduce: 'sum', to: 'replicate', bucket: -1, pass: 0 },
  inputs: [of],
  shape: [rows, 4],
});

/** A graph whose values each have the era that is given beside it. The first is the leaf. */
interface Given {
  readonly values: readonly (readonly [era: number, value: Value])[];
  readonly roots?: readonly number[];
  readonly updates?: ValueGraph['updates'];
  readonly varies?: readonly number[];
}

function planned({ values, roots = [], updates = [], varies = [] }: Given) {
  const graph: ValueGraph = {
    values: [leaf, ...values.map(([, value]) => value)],
    eras: [0, ...values.map(([era]) => era)],
    leafCount: 1,
    roots,
    updates,
    rowCounts: [],
  };
  const sources = new Sources(graph);
  const options = {
    alignment: 64,
    sources,
    varies: (id: number) => varies.includes(id),
    isCompute,
    byteLengthOf,
  };
  const { draft, concats } = takeConcats(graph, segment(graph, sources), options);
  const memory = mapMemory(graph, draft, { ...options, concats, arriving: new Map() });
  return { ...memory, draft };
}

/** Where a value lies, without the kind of its memory. */
function bytesOf(place: Place | undefined): readonly number[] {
  if (place === undefined || place.kind === 'leaf') return [];
  return [place.byteOffset, place.byteOffset + place.byteLength];
}

describe('a concatenation of values that nothing else reads', () => {
  const tiles = [
    [1, neg(0)],
    [2, neg(0)],
    [3, joined([1, 2], 2 * ROWS)],
  ] as const;

  it('has its inputs computed where they lie in it, and no step of its own', () => {
    const { places, draft, allocations, scratchBuffers } = planned({ values: tiles, roots: [3] });
    expect(draft.map(({ values }) => values)).toEqual([[1], [2]]);
    expect([1, 2, 3].map((id) => places[id]?.kind)).toEqual(['result', 'result', 'result']);
    expect([1, 2, 3].map((id) => bytesOf(places[id]))).toEqual([
      [0, BYTES],
      [BYTES, 2 * BYTES],
      [0, 2 * BYTES],
    ]);
    expect(allocations.map(({ byteLength }) => byteLength)).toEqual([2 * BYTES]);
    expect(scratchBuffers).toEqual([]);
  });

  it('may be the message of a collective in place, and the input of another one', () => {
    const { places, inPlace, draft } = planned({
      values: [
        ...tiles,
        [4, neg(0)],
        [5, joined([3, 4], 3 * ROWS)],
        [6, reduced(5, 3 * ROWS)],
        [6, neg(6, [3 * ROWS, 4])],
      ],
      roots: [7],
    });
    expect(draft.map(({ kind, values }) => [kind, ...values])).toEqual([
      ['compute', 1],
      ['compute', 2],
      ['compute', 4],
      ['start', 6],
      ['wait', 6],
      ['compute', 7],
    ]);
    expect(inPlace).toEqual(new Set([6]));
    const [start = NaN] = bytesOf(places[6]);
    expect([1, 2, 4].map((id) => bytesOf(places[id])[0])).toEqual(
      [0, 1, 2].map((count) => start + count * BYTES),
    );
  });

  it('has a cast of 16-bit values to f32 made where these are computed', () => {
    const half: Value = {
      ...base,
      op: 'cast',
      params: { dtype: 'bf16' },
      inputs: [0],
      dtype: 'bf16',
    };
    const { places, draft } = planned({
      values: [
        [1, half],
        [1, { ...base, op: 'cast', params: { dtype: 'f32' }, inputs: [1] }],
        [2, neg(0)],
        [3, joined([2, 3], 2 * ROWS)],
      ],
      roots: [4],
    });
    expect(draft.map(({ values }) => values)).toEqual([[1, 2], [3]]);
    expect([2, 3].map((id) => bytesOf(places[id])[0])).toEqual([0, BYTES]);
    expect(places[1]).toBeUndefined();
  });

  it('keeps its memory from the first of its inputs on', () => {
    // The sum lives while only the first input is there, and is of the size of the second.
    const { places } = planned({
      values: [
        [1, neg(0)],
        [2, add(0, 0)],
        [3, neg(2)],
        [4, joined([1, 3], 2 * ROWS)],
        [5, neg(4, [2 * ROWS, 4])],
      ],
      roots: [5],
    });
    const [from = NaN, to = NaN] = bytesOf(places[4]);
    const [start = NaN, end = NaN] = bytesOf(places[2]);
    expect(places[2]?.kind === places[4]?.kind && start < to && from < end).toBe(false);
  });

  const refused: Readonly<Record<string, Given>> = {
    'where something else reads an input': { values: [...tiles, [4, neg(1)]], roots: [3, 4] },
    'where an input is kept': { values: tiles, roots: [1, 3] },
    'where an input replaces a leaf': {
      values: tiles,
      roots: [3],
      updates: [{ target: 0, value: 2 }],
    },
    'where it replaces a leaf itself': { values: tiles, updates: [{ target: 0, value: 3 }] },
    'where an input is a leaf': {
      values: [
        [1, neg(0)],
        [2, joined([0, 1], 2 * ROWS)],
      ],
      roots: [2],
    },
    'where an input occurs twice': {
      values: [
        [1, neg(0)],
        [2, joined([1, 1], 2 * ROWS)],
      ],
      roots: [2],
    },
    'where an input comes from another rank': {
      values: [
        [0, neg(0)],
        [0, reduced(1, ROWS)],
        [1, neg(0)],
        [2, joined([2, 3], 2 * ROWS)],
      ],
      roots: [4],
    },
    'along an inner dim': {
      values: [tiles[0], tiles[1], [3, joined([1, 2], 2 * ROWS, 1)]],
      roots: [3],
    },
    'where an input would begin between the places at which the device lets values begin': {
      values: [
        [1, neg(0, [1, 4])],
        [2, neg(0)],
        [3, joined([1, 2], ROWS + 1)],
      ],
      roots: [3],
    },
    'where an input has no elements': {
      values: [
        [1, neg(0)],
        [2, neg(0, [0, 4])],
        [3, joined([1, 2], ROWS)],
      ],
      roots: [3],
    },
    'where a size varies': { values: tiles, roots: [3], varies: [2, 3] },
    'where one step computes all inputs, which a device may fuse': {
      values: [
        [1, neg(0)],
        [1, add(0, 0)],
        [1, joined([1, 2], 2 * ROWS)],
      ],
      roots: [3],
    },
    'where the step of its last input reads it': {
      values: [tiles[0], tiles[1], [2, joined([1, 2], 2 * ROWS)], [2, neg(3, [2 * ROWS, 4])]],
      roots: [4],
    },
  };

  test.each(Object.entries(refused))('is computed %s', (_, given) => {
    const { concats, draft } = planned(given);
    expect(concats.size).toBe(0);
    const id = 1 + given.values.findIndex(([, { op }]) => op === 'concat');
    expect(draft.some(({ values }) => values.includes(id))).toBe(true);
  });
});
