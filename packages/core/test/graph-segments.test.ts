import { describe, expect, it } from 'vitest';
import { segment } from '../src/realize/segments/segment.ts';
import { Sources } from '../src/realize/segments/sources.ts';
import type { Value, ValueGraph } from '../src/realize/values/values.ts';

const shape = [256, 256];
const axis = { axis: 'dp', size: 2, rank: 0 };

const input: Value = { op: 'input', params: {}, inputs: [], shape, dtype: 'f32' };
const add = (...inputs: number[]): Value => ({
  op: 'add',
  params: {},
  inputs,
  shape,
  dtype: 'f32',
});
const gather = (of: number): Value => ({
  op: 'allGather',
  params: { ...axis, dim: 0, to: 'replicate' },
  inputs: [of],
  shape: [512, 256],
  dtype: 'f32',
});

const scatter = (of: number): Value => ({
  op: 'reduceScatter',
  params: { ...axis, dim: 0, reduce: 'sum', pass: 0 },
  inputs: [of],
  shape: [128, 256],
  dtype: 'f32',
});
const out = (of: number): Value => ({
  op: 'pageOut',
  params: { store: 0, name: null },
  inputs: [of],
  shape,
  dtype: 'f32',
});
const back = (of: number): Value => ({
  op: 'pageIn',
  params: {},
  inputs: [of],
  shape,
  dtype: 'f32',
});

const refreshed = (of: number, bucket: number): Value => ({
  op: 'refresh',
  params: { source: 0, name: String(of), bucket },
  inputs: [of],
  shape,
  dtype: 'f32',
});

function draftOf(graph: Omit<ValueGraph, 'eras'>): string[] {
  const whole = { ...graph, eras: graph.values.map(() => 0) };
  const draft = segment(whole, new Sources(whole));
  return draft.map(({ kind, values }) => `${kind} ${values.join(' ')}`);
}

describe('segments', () => {
  it('are not cut between parameters that were collected together', () => {
    const values = [input, input, gather(0), gather(1), add(2, 2), add(4, 3)];
    expect(draftOf({ values, leafCount: 2, roots: [5], updates: [], rowCounts: [] })).toEqual([
      'start 2',
      'start 3',
      'wait 2',
      'wait 3',
      'compute 4 5',
    ]);
  });

  it('begin before what a source brings is there, and wait for a bucket where it is needed first', () => {
    const fresh = [refreshed(0, 0), refreshed(1, 0), refreshed(2, 1)];
    const values = [input, input, input, ...fresh, add(3, 4), add(6, 5)];
    const updates = [3, 4, 5].map((value, target) => ({ target, value }));
    expect(draftOf({ values, leafCount: 3, roots: [7], updates, rowCounts: [] })).toEqual([
      'start 3 4',
      'start 5',
      'wait 3 4',
      'compute 6',
      'wait 5',
      'compute 7',
    ]);
  });

  it('send rows to other ranks before they compute what these do not need', () => {
    const send = (of: number): Value => ({
      op: 'allToAllRows',
      params: { ...axis, shape },
      inputs: [of, 1, 1],
      shape,
      dtype: 'f32',
    });
    // Value 3 is not an input of the message, value 4 is computed from 2, and value 7 needs the received value.
    const values = [input, input, add(0, 0), add(0, 0), add(2, 0), send(4), add(3, 0), add(5, 6)];
    expect(draftOf({ values, leafCount: 2, roots: [7], updates: [], rowCounts: [] })).toEqual([
      'compute 2 4',
      'start 5',
      'compute 3 6',
      'wait 5',
      'compute 7',
    ]);
  });

  it('wait for what was collected ahead only where it is used', () => {
    const values = [input, input, gather(0), add(0, 0), gather(1), add(3, 2), add(5, 4)];
    expect(draftOf({ values, leafCount: 2, roots: [6], updates: [], rowCounts: [] })).toEqual([
      'start 2',
      'start 4',
      'compute 3',
      'wait 2',
      'compute 5',
      'wait 4',
      'compute 6',
    ]);
  });

  it('widen values of 16 bits where they use them, also those that another segment computes', () => {
    const cast = (of: number, dtype: 'f32' | 'bf16'): Value => {
      return { op: 'cast', params: { dtype }, inputs: [of], shape, dtype };
    };
    const values = [
      input,
      add(0, 0),
      cast(1, 'bf16'),
      cast(2, 'f32'),
      add(3, 3),
      gather(4),
      add(3, 5),
    ];
    const whole = {
      values,
      leafCount: 1,
      roots: [6],
      updates: [],
      rowCounts: [],
      eras: values.map(() => 0),
    };
    const sources = new Sources(whole);
    expect([sources.isCheap(3), sources.of(6)]).toEqual([true, [3, 2, 5]]);
    // The last segment reads value 2, which has 16 bits.
    expect(draftOf(whole)).toEqual(['compute 1 2 4', 'start 5', 'wait 5', 'compute 6']);
  });

  it('update several parameters before the gathers of these start', () => {
    const values = [input, input, add(0, 0), gather(2), add(1, 1), gather(4), add(3, 5)];
    const updates = [
      { target: 0, value: 3 },
      { target: 1, value: 5 },
    ];
    expect(
      draftOf({ values: values.slice(0, 6), leafCount: 2, roots: [], updates, rowCounts: [] }),
    ).toEqual(['compute 2 4', 'start 3', 'start 5', 'wait 3', 'wait 5']);
    expect(draftOf({ values, leafCount: 2, roots: [6], updates, rowCounts: [] }).at(-1)).toBe(
      'compute 6',
    );
  });

  it('page a value out as soon as it is made, and read it while the segment before runs', () => {
    const values = [input, add(0, 0), out(1), add(1, 0), out(3), add(3, 0), back(2), add(5, 6)];
    expect(draftOf({ values, leafCount: 1, roots: [4, 7], updates: [], rowCounts: [] })).toEqual([
      'compute 1',
      'start 2',
      'compute 3',
      'wait 2',
      'start 4',
      'start 6',
      'compute 5',
      'wait 6',
      'compute 7',
      'wait 4',
    ]);
  });

  it('page out what a reduction brings when that has been waited for anyway', () => {
    const values = [
      input,
      add(0, 0),
      scatter(1),
      out(2),
      add(1, 0),
      scatter(4),
      out(5),
      add(4, 0),
      scatter(7),
      out(8),
    ];
    const draft = draftOf({ values, leafCount: 1, roots: [3, 6, 9], updates: [], rowCounts: [] });
    // No reduction is waited for before the one after it starts.
    expect(draft.indexOf('wait 2')).toBeGreaterThan(draft.indexOf('compute 4'));
    expect(draft.indexOf('start 3')).toBe(draft.indexOf('wait 2') + 1);
    expect(draft.indexOf('start 6')).toBe(draft.indexOf('wait 5') + 1);
    for (const page of [3, 6, 9]) expect(draft).toContain(`wait ${page}`);
    expect(new Set(draft).size).toBe(draft.length);
  });
});
