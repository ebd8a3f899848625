import type { Shape } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { wasmHandles } from '../../src/kernels/handles.ts';
import { KernelFixture } from './kernel-fixture.ts';

/** A value of the fixture: its id, its shape, and the elements that it holds. */
interface Value {
  readonly id: number;
  readonly shape: Shape;
  readonly data: readonly number[];
}

const size = (shape: Shape): number => shape.reduce((product, dim) => product * dim, 1);

function indicesOf(shape: Shape): number[][] {
  return Array.from({ length: size(shape) }, (_, flat) => {
    let rest = flat;
    const indices = shape.toReversed().map((dim) => {
      const index = rest % dim;
      rest = (rest - index) / dim;
      return index;
    });
    return indices.toReversed();
  });
}

function elementAt({ shape, data }: Value, indices: readonly number[]): number {
  const flat = indices.reduce((total, index, dim) => total * (shape[dim] ?? 1) + index, 0);
  return data[flat] ?? NaN;
}

function input(fixture: KernelFixture, shape: Shape, start = 0): Value {
  const data = Array.from({ length: size(shape) }, (_, i) => start + i);
  return { id: fixture.input(data, 'f32', shape), shape, data };
}

function permute(fixture: KernelFixture, x: Value, order: readonly number[]): Value {
  const shape = order.map((dim) => x.shape[dim] ?? 1);
  const data = indicesOf(shape).map((indices) =>
    elementAt(
      x,
      x.shape.map((_, dim) => indices[order.indexOf(dim)] ?? 0),
    ),
  );
  return { id: fixture.op('permute', [x.id], { order }, shape), shape, data };
}

function slice(fixture: KernelFixture, x: Value, dim: number, start: number, stop: number): Value {
  const starts = x.shape.map(() => 0).with(dim, start);
  const stops = [...x.shape].with(dim, stop);
  const shape = [...x.shape].with(dim, stop - start);
  const data = indicesOf(shape).map((indices) =>
    elementAt(
      x,
      indices.map((index, d) => index + (starts[d] ?? 0)),
    ),
  );
  const steps = x.shape.map(() => 1);
  return { id: fixture.op('slice', [x.id], { starts, stops, steps }, shape), shape, data };
}

function concat(fixture: KernelFixture, a: Value, b: Value, dim: number): Value {
  const border = a.shape[dim] ?? 0;
  const shape = [...a.shape].with(dim, border + (b.shape[dim] ?? 0));
  const data = indicesOf(shape).map((indices) => {
    const index = indices[dim] ?? 0;
    return index < border ? elementAt(a, indices) : elementAt(b, indices.with(dim, index - border));
  });
  return { id: fixture.op('concat', [a.id, b.id], { dim }, shape), shape, data };
}

function reshape(fixture: KernelFixture, x: Value, shape: Shape): Value {
  return { id: fixture.op('reshape', [x.id], { shape }, shape), shape, data: x.data };
}

function expectRun(fixture: KernelFixture, values: readonly Value[]): void {
  fixture.outputs.push(...new Set(values.map(({ id }) => id)));
  expect(fixture.run()).toEqual([...new Map(values.map(({ id, data }) => [id, data])).values()]);
}

describe('movement of rows', () => {
  test('splits heads that stand one after the other, in one pass each', () => {
    const fixture = new KernelFixture();
    const [B, T, H, D] = [2, 3, 2, 17];
    const heads = permute(
      fixture,
      reshape(fixture, input(fixture, [B * T, 3 * H * D]), [B, T, 3 * H, D]),
      [0, 2, 1, 3],
    );
    const parts = [0, 1, 2].map((part) => slice(fixture, heads, 1, part * H, (part + 1) * H));
    expectRun(fixture, parts);
  });

  test('puts the gradients of heads together, in one pass', () => {
    const fixture = new KernelFixture();
    const [query, key] = [0, 1000].map((start) => input(fixture, [2, 2, 3, 16], start));
    if (!query || !key) throw new Error('two inputs');
    const moved = permute(fixture, concat(fixture, query, key, 1), [0, 2, 1, 3]);
    expectRun(fixture, [reshape(fixture, moved, [6, 64])]);
  });

  test('gives elementwise steps what has been moved', () => {
    const fixture = new KernelFixture();
    const x = permute(fixture, input(fixture, [2, 3, 16]), [1, 0, 2]);
    const y = fixture.op('neg', [x.id], {}, x.shape);
    expectRun(fixture, [x, { ...x, id: y, data: x.data.map((value) => -value) }]);
  });

  test('is left to others where runs are short, steps are long or dtypes are other', () => {
    const f32 = { shape: [40, 20], dtype: 'f32' } as const;
    const transpose = { op: 'permute', params: { order: [1, 0] }, inputs: [0] } as const;
    expect(wasmHandles({ ...transpose, ...f32, shape: [20, 40] }, [f32])).toBe(false);
    const params = { starts: [0, 0], stops: [40, 20], steps: [2, 1] };
    const strided = { op: 'slice', params, inputs: [0], ...f32, shape: [20, 20] } as const;
    expect(wasmHandles(strided, [f32])).toBe(false);
    const bool = { shape: [40, 20], dtype: 'bool' } as const;
    const rows = { ...strided, params: { ...params, stops: [20, 20], steps: [1, 1] } };
    expect(wasmHandles({ ...rows, dtype: 'bool' }, [bool])).toBe(false);
    expect(wasmHandles(rows, [f32])).toBe(true);
  });

  test('of movements in any order is as one after the other', () => {
    const move = fc.record({
      kind: fc.constantFrom('permute', 'slice', 'concat', 'reshape'),
      a: fc.nat(),
      b: fc.nat(),
      isOutput: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(move, { minLength: 1, maxLength: 6 }), (moves) => {
        const fixture = new KernelFixture();
        const values = [input(fixture, [2, 3, 2, 16]), input(fixture, [3, 2, 2, 19], 1000)];
        const outputs: Value[] = [];
        for (const { kind, a, b, isOutput } of moves) {
          const x = values[a % values.length];
          if (!x) continue;
          const dim = b % 3;
          const length = x.shape[dim] ?? 1;
          const made = {
            permute: () => permute(fixture, x, [...[0, 1, 2].with(0, dim).with(dim, 0), 3]),
            slice: () => slice(fixture, x, dim, length > 1 ? 1 : 0, length),
            concat: () => concat(fixture, x, x, dim),
            reshape: () => reshape(fixture, x, [1, size(x.shape.slice(0, 2)), ...x.shape.slice(2)]),
          }[kind]();
          if (size(made.shape) > 10_000) continue;
          values.push(made);
          if (isOutput) outputs.push(made);
        }
        const last = values.at(-1);
        expectRun(fixture, last ? [...outputs, last] : outputs);
      }),
      { numRuns: 100 },
    );
  });
});
