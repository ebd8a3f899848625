import { describe, expect, it } from 'vitest';
import { mapMemory, type Place } from '../src/realize/segments/memory-map.ts';
import { segment } from '../src/realize/segments/segment.ts';
import { Sources } from '../src/realize/segments/sources.ts';
import type { Value, ValueGraph } from '../src/realize/values/values.ts';

const shape = [64, 4];
const base = { params: {}, shape, dtype: 'f32' } as const;
const input: Value = { ...base, op: 'input', inputs: [] };
const add = (...inputs: number[]): Value => ({ ...base, op: 'add', inputs });
const reduced = (of: number): Value => ({
  ...base,
  op: 'allReduce',
  params: { axis: 'dp', size: 2, rank: 0, reduce: 'sum', to: 'replicate', bucket: -1, pass: 0 },
  inputs: [of],
});
const flat = (of: number): Value => ({
  ...base,
  op: 'reshape',
  params: { shape: [256] },
  inputs: [of],
  shape: [256],
});

function placesOf(
  values: readonly Value[],
  roots: readonly number[],
): readonly (Place | undefined)[] {
  const eras = values.map(() => 0);
  const graph: ValueGraph = { values, leafCount: 1, eras, roots, updates: [], rowCounts: [] };
  const sources = new Sources(graph);
  const draft = segment(graph, sources);
  return mapMemory(graph, draft, {
    alignment: 64,
    sources,
    arriving: new Map(),
    varies: () => false,
    concats: new Map(),
  }).places;
}

/** Names the memory that a value lies in. */
function memoryOf(place: Place | undefined): string | undefined {
  if (place?.kind === 'result') return `result ${place.allocation}`;
  return place?.kind === 'scratch' ? `scratch ${place.buffer}` : place?.kind;
}

function overlap(a: Place | undefined, b: Place | undefined): boolean {
  if (a === undefined || b === undefined || a.kind === 'leaf' || b.kind === 'leaf') return false;
  if (memoryOf(a) !== memoryOf(b)) return false;
  return a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength;
}

describe('the memory of a plan', () => {
  it('keeps what a segment makes another shape of, also where that shape is a result of its own', () => {
    const values = [
      input,
      add(0, 0),
      reduced(1),
      // This value is a root. The segment of the last value recomputes it.
      flat(2),
      add(0, 0),
      reduced(4),
      add(5, 0),
      reduced(6),
      flat(7),
      { ...add(3, 8), shape: [256] },
    ];
    const places = placesOf(values, [3, 9]);
    expect(places[2]?.kind).toBe('scratch');
    expect(places[7]?.kind).toBe('scratch');
    expect(overlap(places[2], places[7])).toBe(false);
  });

  it('is a result’s before the result is there', () => {
    // Each sum waits for the one before it. The last sum is kept.
    const values = [input, add(0, 0), reduced(1), add(2, 0), reduced(3), add(4, 0), reduced(5)];
    const places = placesOf(values, [6]);
    expect(places[6]).toMatchObject({ kind: 'result', allocation: 0, byteOffset: 0 });
    expect(places[2]).toEqual(places[6]);
    expect(places[4]?.kind).toBe('scratch');
  });
});
