import { interpreter } from '@shardwise/testing';
import * as fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { inEra } from '../src/graph/create-node.ts';
import { LineMesh } from '../src/mesh.ts';
import { setRank } from '../src/rank.ts';
import { takeConcats } from '../src/realize/segments/concats-in-place.ts';
import { mapMemory, type Place } from '../src/realize/segments/memory-map.ts';
import { segment } from '../src/realize/segments/segment.ts';
import { Sources } from '../src/realize/segments/sources.ts';
import type { Value, ValueGraph } from '../src/realize/values/values.ts';
import type { Backend } from '../src/spec/backend.ts';
import { BackendError } from '../src/spec/errors.ts';
import type { ProcessGroup } from '../src/spec/process-group.ts';
import { allGather, allReduce, reduceScatter, reinterpret } from '../src/tensor/collectives.ts';
import { concat, fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

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
  const options = { alignment: 64, sources, varies: (id: number) => varies.includes(id) };
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

const unused = (): Promise<never> => Promise.reject(new Error('not in these programs'));

/** A group of two ranks. The other rank always contributes zeros. */
const pair: ProcessGroup = {
  specificationVersion: 1,
  rank: 0,
  size: 2,
  allReduce: async () => {},
  allGather: async (input, output) => {
    output.bytes.fill(0);
    output.bytes.set(input.bytes);
  },
  reduceScatter: async (input, output) => {
    output.bytes.set(input.bytes.subarray(0, output.bytes.length));
  },
  allToAll: unused,
  broadcast: unused,
  reduce: unused,
  gather: unused,
  scatter: unused,
  barrier: unused,
  send: unused,
  recv: unused,
  split: unused,
  close: () => {},
};

/** A row has more bytes than alignment asks for, and three rows are more than a small value, which would be kept. */
const WIDTH = 88;
/** No value is so large that another one may begin behind it. */
const APART_BYTES = 2 ** 14;
const MAX_ROWS = 24;

interface Choice {
  readonly kind:
    | 'neg'
    | 'add'
    | 'concat'
    | 'tiles'
    | 'half'
    | 'reduce'
    | 'gather'
    | 'scatter'
    | 'assign';
  /** Values that are read, counted from the youngest. */
  readonly reads: readonly [number, number, number];
  readonly era: number;
  readonly isKept: boolean;
}

const programs: fc.Arbitrary<readonly Choice[]> = fc.array(
  fc.record({
    kind: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom<Choice['kind']>('neg', 'concat', 'tiles') },
      {
        weight: 3,
        arbitrary: fc.constantFrom<Choice['kind']>(
          'add',
          'half',
          'reduce',
          'gather',
          'scatter',
          'assign',
        ),
      },
    ),
    reads: fc.tuple(fc.nat(3), fc.nat(3), fc.nat(5)),
    era: fc.nat(3),
    isKept: fc.nat(3).map((number) => number === 0),
  }),
  { minLength: 4, maxLength: 20 },
);

/** What a program keeps and updates, and the number of concatenations that its device computed. */
async function outcomeOf(choices: readonly Choice[], alignment: number) {
  const device = interpreter();
  let concats = 0;
  const backend: Backend = {
    ...device,
    limits: { ...device.limits, alignment },
    compile: (program) => {
      concats += program.instructions.filter(({ op }) => op === 'concat').length;
      return device.compile(program);
    },
  };
  setRank({ device: backend, mesh: new LineMesh('dp', pair) });
  const leaves = [4, 6, 8].map((rows) => {
    const numbers = Float32Array.from({ length: rows * WIDTH }, (_, i) => rows + i / 7);
    return fromData(numbers, [rows, WIDTH], 'f32').makeResident();
  });
  const values: Tensor[] = [...leaves];
  const kept: Tensor[] = [];
  for (const { kind, reads, era, isKept } of choices) {
    const picked = reads.map((back) => values.at(-1 - (back % values.length)) ?? values[0]);
    const [x, y, z] = picked;
    if (x === undefined || y === undefined || z === undefined) break;
    const made = inEra(era, () => applied(kind, [x, y, z], leaves, values.length));
    if (made === null) continue;
    values.push(made);
    if (isKept) kept.push(made.retain());
  }
  const last = values.at(-1);
  await last?.realize();
  const results: string[] = [];
  for (const each of [...kept, ...leaves]) {
    const { buffer } = Float32Array.from(await each.data(), Number);
    results.push(Buffer.from(buffer).toString('base64'));
  }
  return { results, concats };
}

function applied(
  kind: Choice['kind'],
  [x, y, z]: readonly [Tensor, Tensor, Tensor],
  leaves: readonly Tensor[],
  number: number,
): Tensor | null {
  const rows = x.shape[0] ?? 0;
  switch (kind) {
    case 'neg':
      return x.mul(number);
    case 'add':
      return x.shape[0] === y.shape[0] ? x.add(y) : x.neg();
    case 'concat': {
      const all = [x, y, z].filter((each, i, list) => list.indexOf(each) === i);
      const sum = all.reduce((total, each) => total + (each.shape[0] ?? 0), 0);
      return sum > MAX_ROWS ? null : concat(all);
    }
    case 'tiles': {
      const tile = Math.floor(rows / 2);
      const parts = [0, tile].map((start) =>
        inEra(10 + number + start, () => x.slice(0, start, start + tile).add(start)),
      );
      return concat([...parts, ...(rows + 4 > MAX_ROWS ? [] : [y.slice(0, 0, 4).neg()])]);
    }
    case 'half':
      return rows < 4 ? null : x.slice(0, 0, Math.floor(rows / 2));
    case 'reduce':
      return reinterpret(allReduce(x, 'dp'), 'dp', 'replicate', 'varying');
    case 'gather':
      return rows * 2 > MAX_ROWS
        ? null
        : reinterpret(allGather(x, 'dp', 0), 'dp', 'replicate', 'varying');
    case 'scatter':
      return rows % 4 === 0 ? reduceScatter(x, 'dp', 0) : null;
    case 'assign': {
      const target = leaves.find(({ shape }) => shape[0] === rows);
      if (target !== undefined && target !== x) target.assign(x.add(1));
      return null;
    }
  }
}

describe('a program', () => {
  it('has the same results with concatenations in place as with computed ones', async () => {
    let [inPlace, computed] = [0, 0];
    await fc.assert(
      fc.asyncProperty(programs, async (choices) => {
        const found = await outcomeOf(choices, 16);
        const apart = await outcomeOf(choices, APART_BYTES);
        inPlace += apart.concats - found.concats;
        computed += found.concats;
        expect(found.results.join()).toBe(apart.results.join());
      }),
      { numRuns: 60, seed: 7, endOnFailure: true },
    );
    expect(inPlace).toBeGreaterThan(20);
    expect(computed).toBeGreaterThan(20);
  });

  it('that fails in the middle has no concatenation of which an input is missing', async () => {
    const device = interpreter();
    let runs = 0;
    const failing: Backend = {
      ...device,
      compile: async (program) => {
        const executable = await device.compile(program);
        return {
          ...executable,
          run: (...given) =>
            ++runs === 2
              ? Promise.reject(new BackendError({ asked: 'a', found: 'b', todo: 'c' }))
              : executable.run(...given),
        };
      },
    };
    setRank({ device: failing });
    const x = fromData(new Float32Array(4 * WIDTH).fill(3), [4, WIDTH], 'f32').makeResident();
    const both = concat([inEra(1, () => x.neg()), inEra(2, () => x.mul(2))]);
    await expect(both.data()).rejects.toThrow(BackendError);
    expect(Number((await concat([x.neg(), x]).data()).at(-1))).toBe(3);
  });
});
