import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KernelLibrary, libraryOf } from '../../src/emit/wasm/kernel-library.ts';
import { KernelFixture, sampleFloats, sharedMemory, uniform } from './kernel-fixture.ts';

const round = Math.fround;

/** One AdamW step on parameters [n]. The learning rate is an input and the rest are constants. */
function adamW(n: number, seed = 1): { fixture: KernelFixture; expected: number[][] } {
  const random = uniform(seed);
  const draw = (): number[] => Array.from({ length: n }, () => round(random() - 0.5));
  const data = { p: draw(), g: draw(), m: draw(), v: draw().map(Math.abs) };
  const [lr, decay, beta1, beta2, eps] = [1e-3, 0.01, 0.9, 0.999, 1e-8].map(round) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const fixture = new KernelFixture();
  const [p, g, m, v] = [data.p, data.g, data.m, data.v].map((x) => fixture.input(x)) as [
    number,
    number,
    number,
    number,
  ];
  const shape = [n];
  const rate = fixture.broadcast(fixture.input([lr], 'f32', []), shape);
  const constant = (value: number): number => fixture.constant(value, shape);
  const op = (name: 'add' | 'sub' | 'mul' | 'div' | 'sqrt', ...inputs: number[]): number =>
    fixture.op(name, inputs, {}, shape);
  const m2 = op('add', op('mul', m, constant(beta1)), op('mul', g, constant(1 - beta1)));
  const v2 = op(
    'add',
    op('mul', v, constant(beta2)),
    op('mul', op('mul', g, g), constant(1 - beta2)),
  );
  const step = op('div', m2, op('add', op('sqrt', v2), constant(eps)));
  const decayed = op('sub', p, op('mul', op('mul', p, constant(decay)), rate));
  const p2 = op('sub', decayed, op('mul', step, rate));
  fixture.inPlace.set(p2, p).set(m2, m).set(v2, v);

  const mNext = data.m.map((x, i) =>
    round(round(x * beta1) + round((data.g[i] ?? 0) * round(1 - beta1))),
  );
  const vNext = data.v.map((x, i) => {
    const gradient = data.g[i] ?? 0;
    return round(round(x * beta2) + round(round(gradient * gradient) * round(1 - beta2)));
  });
  const pNext = data.p.map((x, i) => {
    const denominator = round(round(Math.sqrt(vNext[i] ?? 0)) + eps);
    const shrunk = round(x - round(round(x * decay) * lr));
    return round(shrunk - round(round((mNext[i] ?? 0) / denominator) * lr));
  });
  return { fixture, expected: [pNext, mNext, vNext] };
}

describe('fused loops', () => {
  test.each([1, 3, 4, 5, 1000])('AdamW in place on %i elements equals a JavaScript loop', (n) => {
    const { fixture, expected } = adamW(n);
    expect(fixture.run()).toEqual(expected);
  });

  test('AdamW needs no memory of its own', () => {
    expect(adamW(8).fixture.compile(sharedMemory(65536)).storage).toEqual([]);
  });

  test('parameters of all sizes share one AdamW kernel', () => {
    const memory = sharedMemory(1 << 20);
    for (const n of [5, 64, 1000]) adamW(n).fixture.run(memory);
    expect(libraryOf(memory)).toBeInstanceOf(KernelLibrary);
    expect(libraryOf(memory).size).toBe(1);
  });

  test('updates of many parameters stay apart: one loop each', () => {
    const fixture = new KernelFixture();
    const rate = fixture.input([0.5], 'f32', []);
    for (let i = 0; i < 3; i++) {
      const p = fixture.input([i, i + 1]);
      const g = fixture.input([1, 2]);
      const scaled = fixture.op('mul', [g, fixture.broadcast(rate, [2])], {}, [2]);
      fixture.inPlace.set(fixture.op('sub', [p, scaled], {}, [2]), p);
    }
    const memory = sharedMemory(65536);
    expect(fixture.run(memory)).toEqual([
      [-0.5, 0],
      [0.5, 1],
      [1.5, 2],
    ]);
    expect(libraryOf(memory).size).toBe(1);
  });

  test('two values may swap places', () => {
    const fixture = new KernelFixture();
    const a = fixture.input([1, 2, 3]);
    const b = fixture.input([4, 5, 6]);
    const alias = (id: number): number => fixture.op('reshape', [id], { shape: [3] }, [3]);
    fixture.inPlace.set(alias(a), b).set(alias(b), a);
    expect(fixture.run()).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
  });

  test('a target is overwritten only after a reduction has read its old value', () => {
    const fixture = new KernelFixture();
    const x = fixture.input([1, 2, 3, 4, 5]);
    const next = fixture.op('add', [x, x], {}, [5]);
    const sum = fixture.op('sum', [x], { dims: [0] }, []);
    fixture.outputs.push(sum);
    fixture.inPlace.set(next, x);
    expect(fixture.run()).toEqual([[15], [2, 4, 6, 8, 10]]);
  });

  test('where the new value feeds what still needs the old one, it is copied at the end', () => {
    const fixture = new KernelFixture();
    const x = fixture.input([1, 2, 3, 4, 5]);
    const total = fixture.op('sum', [x], { dims: [0] }, []);
    const next = fixture.op('sub', [x, fixture.broadcast(total, [5])], {}, [5]);
    const after = fixture.op('sum', [next], { dims: [0] }, []);
    const shifted = fixture.op('sub', [x, fixture.broadcast(after, [5])], {}, [5]);
    fixture.outputs.push(shifted);
    fixture.inPlace.set(next, x);
    expect(fixture.run()).toEqual([
      [61, 62, 63, 64, 65],
      [-14, -13, -12, -11, -10],
    ]);
  });

  test('a row vector, a value per row and a scalar are read without being repeated', () => {
    const [rows, columns] = [3, 5];
    const shape = [rows, columns];
    const fixture = new KernelFixture();
    const x = fixture.input(sampleFloats(40).slice(-15), 'f32', shape);
    const bias = fixture.input([1, 2, 3, 4, 5], 'f32', [1, columns]);
    const scale = fixture.input([10, 20, 30], 'f32', [rows, 1]);
    const expand = (id: number): number => fixture.op('expand', [id], { shape }, shape);
    const scaled = fixture.op('mul', [x, expand(scale)], {}, shape);
    const sum = fixture.op('add', [scaled, expand(bias)], {}, shape);
    fixture.outputs.push(sum);
    expect(fixture.compile(sharedMemory(65536)).storage).toEqual([sum]);
    const data = sampleFloats(40).slice(-15);
    expect(fixture.run()).toEqual([
      data.map((value, i) =>
        round(round(value * 10 * (1 + Math.floor(i / columns))) + 1 + (i % columns)),
      ),
    ]);
  });

  test('an expand that must be stored is written out', () => {
    const fixture = new KernelFixture();
    const row = fixture.input([1, 2, 3], 'f32', [1, 3]);
    fixture.outputs.push(fixture.op('expand', [row], { shape: [2, 3] }, [2, 3]));
    fixture.outputs.push(fixture.constant(7, [4], 'i32'));
    expect(fixture.run()).toEqual([
      [1, 2, 3, 1, 2, 3],
      [7, 7, 7, 7],
    ]);
  });

  test('an input that is an output is copied', () => {
    const fixture = new KernelFixture();
    const x = fixture.input([1, 0, 1, 1, 0], 'bool');
    fixture.outputs.push(fixture.op('reshape', [x], { shape: [5, 1] }, [5, 1], 'bool'));
    expect(fixture.run()).toEqual([[1, 0, 1, 1, 0]]);
  });

  test('dead instructions take no memory', () => {
    const fixture = new KernelFixture();
    const x = fixture.input([1, 2]);
    fixture.op('exp', [x], {}, [2]);
    const y = fixture.op('neg', [x], {}, [2]);
    fixture.outputs.push(y);
    expect(fixture.compile(sharedMemory(65536)).storage).toEqual([y]);
  });

  test('constants that JSON cannot tell apart are different kernels', () => {
    const run = (value: number): number[][] => {
      const fixture = new KernelFixture();
      const x = fixture.input([1]);
      fixture.outputs.push(fixture.op('mul', [x, fixture.constant(value, [1])], {}, [1]));
      return fixture.run(memory);
    };
    const memory = sharedMemory(65536);
    expect([NaN, Infinity, -Infinity, 0, -0].map(run)).toEqual(
      [NaN, Infinity, -Infinity, 0, -0].map((value) => [[value]]),
    );
  });
});

describe('random', () => {
  const mix = (x: number, [a, f, b, g, c]: readonly number[]): number => {
    let h = x;
    h = Math.imul(h ^ (h >>> (a ?? 0)), f ?? 0);
    h = Math.imul(h ^ (h >>> (b ?? 0)), g ?? 0);
    return h ^ (h >>> (c ?? 0));
  };
  const reference = (index: number, key0: number, key1: number): number => {
    const start = (Math.imul(index, 0x9e3779b9) + key0) | 0;
    const first = mix(start, [16, 0x85ebca6b, 13, 0xc2b2ae35, 16]);
    return mix((first + key1) | 0, [16, 0x7feb352d, 15, 0x846ca68b, 16]);
  };

  test.each([1, 4, 7, 100])('gives %i elements by key and flat index', (count) => {
    const fixture = new KernelFixture();
    const key = fixture.input([123456789, -987654321], 'i32');
    fixture.outputs.push(fixture.op('random', [key], { shape: [count] }, [count], 'i32'));
    const expected = Array.from({ length: count }, (_, i) => reference(i, 123456789, -987654321));
    expect(fixture.run()).toEqual([expected]);
  });

  test('keeps its indices in a loop over rows', () => {
    const fixture = new KernelFixture();
    const key = fixture.input([1, 2], 'i32');
    const bits = fixture.op('random', [key], { shape: [3, 5] }, [3, 5], 'i32');
    const offset = fixture.input([100, 200, 300], 'i32', [3, 1]);
    const expanded = fixture.op('expand', [offset], { shape: [3, 5] }, [3, 5], 'i32');
    fixture.outputs.push(fixture.op('add', [bits, expanded], {}, [3, 5], 'i32'));
    const expected = Array.from(
      { length: 15 },
      (_, i) => (reference(i, 1, 2) + 100 * (1 + Math.floor(i / 5))) | 0,
    );
    expect(fixture.run()).toEqual([expected]);
  });
});

/** An instruction of a random program: its op, and numbers that pick its inputs among the earlier values. */
const picks = fc.record({
  op: fc.constantFrom(
    ...(['add', 'sub', 'mul', 'maximum', 'minimum', 'neg', 'sqrt', 'relu', 'less'] as const),
    ...(['row', 'column', 'scalar', 'where', 'reshape', 'sum'] as const),
  ),
  a: fc.nat(),
  b: fc.nat(),
  isOutput: fc.boolean(),
});

describe('random programs', () => {
  test('give what an interpreter gives, whatever is fused, stored or overwritten', () => {
    const [rows, columns] = [3, 6];
    const count = rows * columns;
    const shape = [rows, columns];
    const at = (values: readonly number[], i: number): number => values[i] ?? NaN;
    fc.assert(
      fc.property(fc.array(picks, { minLength: 1, maxLength: 24 }), fc.nat(), (program, seed) => {
        const fixture = new KernelFixture();
        const floats: { id: number; data: readonly number[] }[] = [];
        const bools: { id: number; data: readonly number[] }[] = [
          {
            id: fixture.input(
              sampleFloats(count, 3).map((x) => Number(x > 0)),
              'bool',
              shape,
            ),
            data: sampleFloats(count, 3).map((x) => Number(x > 0)),
          },
        ];
        for (let i = 0; i < 3; i++) {
          const data = sampleFloats(count + 30, seed + i).slice(-count);
          floats.push({ id: fixture.input(data, 'f32', shape), data });
        }
        const inputs = [...floats];
        const row = fixture.input([1, 2, 3], 'f32', [rows, 1]);
        const column = fixture.input([1, -2, 3, -4, 5, -6], 'f32', [1, columns]);
        const results: { id: number; data: readonly number[] }[] = [];
        for (const { op, a, b, isOutput } of program) {
          const x = floats[a % floats.length];
          const y = floats[b % floats.length];
          const condition = bools[b % bools.length];
          if (!x || !y || !condition) throw new RangeError('A pick out of range.');
          const each = (f: (x: number, y: number) => number): number[] =>
            x.data.map((value, i) => round(f(value, at(y.data, i))));
          const define = (id: number, data: readonly number[]): void => {
            floats.push({ id, data });
            if (isOutput) results.push({ id, data });
          };
          const binary = (
            name: 'add' | 'sub' | 'mul' | 'maximum' | 'minimum',
            f: (x: number, y: number) => number,
          ): void => define(fixture.op(name, [x.id, y.id], {}, shape), each(f));
          switch (op) {
            case 'add':
              binary(op, (p, q) => p + q);
              break;
            case 'sub':
              binary(op, (p, q) => p - q);
              break;
            case 'mul':
              binary(op, (p, q) => p * q);
              break;
            case 'maximum':
              binary(op, (p, q) => Math.max(p, q));
              break;
            case 'minimum':
              binary(op, (p, q) => Math.min(p, q));
              break;
            case 'neg':
              define(
                fixture.op(op, [x.id], {}, shape),
                each((p) => -p),
              );
              break;
            case 'sqrt':
              define(fixture.op(op, [x.id], {}, shape), each(Math.sqrt));
              break;
            case 'relu':
              define(
                fixture.op(op, [x.id], {}, shape),
                each((p) => Math.max(p, 0)),
              );
              break;
            case 'less': {
              const data = x.data.map((value, i) => Number(value < at(y.data, i)));
              const id = fixture.op(op, [x.id, y.id], {}, shape, 'bool');
              bools.push({ id, data });
              if (isOutput) results.push({ id, data });
              break;
            }
            case 'where':
              define(
                fixture.op(op, [condition.id, x.id, y.id], {}, shape),
                x.data.map((value, i) => (at(condition.data, i) ? value : at(y.data, i))),
              );
              break;
            case 'row':
            case 'column': {
              const expanded = fixture.op(
                'expand',
                [op === 'row' ? row : column],
                { shape },
                shape,
              );
              const factor = (i: number): number =>
                op === 'row' ? 1 + Math.floor(i / columns) : ((i % columns) + 1) * (i % 2 ? -1 : 1);
              define(
                fixture.op('mul', [x.id, expanded], {}, shape),
                x.data.map((value, i) => round(value * factor(i))),
              );
              break;
            }
            case 'scalar':
              define(
                fixture.op('add', [x.id, fixture.constant(0.5, shape)], {}, shape),
                each((p) => p + 0.5),
              );
              break;
            case 'reshape': {
              const flat = fixture.op('reshape', [x.id], { shape: [count] }, [count]);
              const negated = fixture.op('neg', [flat], {}, [count]);
              define(
                fixture.op('reshape', [negated], { shape }, shape),
                each((p) => -p),
              );
              break;
            }
            case 'sum': {
              // The tensor has one element, so the order of additions does not matter.
              const single = fixture.op('reshape', [x.id], { shape: [1, ...shape] }, [1, ...shape]);
              define(
                fixture.op('sum', [single], { dims: [0] }, shape),
                each((p) => p + 0),
              );
              break;
            }
          }
        }
        const targets = results.filter(({ id }) => fixture.values[id]?.dtype === 'f32').slice(-3);
        targets.forEach((result, i) => {
          const target = inputs[i];
          if (target && i < targets.length - 1) fixture.inPlace.set(result.id, target.id);
        });
        const outputs = results.filter(({ id }) => !fixture.inPlace.has(id));
        fixture.outputs.push(...outputs.map(({ id }) => id));
        const inPlace = results.filter(({ id }) => fixture.inPlace.has(id));
        const expected = [...outputs, ...inPlace].map(({ data }) => [...data]);
        expect(fixture.run()).toEqual(expected);
      }),
      { numRuns: 200 },
    );
  });
});
