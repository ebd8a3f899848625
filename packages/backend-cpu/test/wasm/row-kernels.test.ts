import type { ComputeOp, Shape } from '@shardwise/core/spec';
import { describe, expect, test } from 'vitest';
import { wasmHandles } from '../../src/kernels/handles.ts';
import { KernelFixture, sharedMemory, uniform } from './kernel-fixture.ts';

const EPS = 1e-5;
const SHAPES: readonly (readonly [number, number])[] = [
  [1, 1],
  [3, 3],
  [2, 4],
  [5, 7],
  [4, 64],
  [3, 130],
];

const sum = (values: readonly number[]): number => values.reduce((total, x) => total + x, 0);
const mean = (values: readonly number[]): number => sum(values) / values.length;
const dot = (a: readonly number[], b: readonly number[]): number =>
  sum(a.map((x, i) => x * (b[i] ?? 0)));
const times = (a: readonly number[], b: readonly number[]): number[] =>
  a.map((x, i) => x * (b[i] ?? 0));

type Rows = readonly (readonly number[])[];

/** Scales a row to mean square 1. layerNorm first subtracts the mean. */
function normalized(x: readonly number[], norm: 'layerNorm' | 'rmsNorm') {
  const centre = norm === 'layerNorm' ? mean(x) : 0;
  const rstd = 1 / Math.sqrt(mean(x.map((value) => (value - centre) ** 2)) + EPS);
  return { rstd, values: x.map((value) => (value - centre) * rstd) };
}

function inputGrad(
  x: readonly number[],
  weight: readonly number[],
  dy: readonly number[],
  norm: 'layerNorm' | 'rmsNorm',
): number[] {
  const { rstd, values } = normalized(x, norm);
  const g = times(dy, weight);
  const shift = norm === 'layerNorm' ? mean(g) : 0;
  const slope = mean(times(g, values));
  return g.map((value, i) => rstd * (value - shift - (values[i] ?? 0) * slope));
}

function weightGrad(x: Rows, dy: Rows, norm: 'layerNorm' | 'rmsNorm'): number[] {
  return x.reduce<number[]>(
    (total, row, r) => {
      const part = times(normalized(row, norm).values, dy[r] ?? []);
      return part.map((value, i) => value + (total[i] ?? 0));
    },
    Array.from({ length: x[0]?.length ?? 0 }, () => 0),
  );
}

function softmax(x: readonly number[]): number[] {
  const powers = x.map((value) => Math.exp(value - Math.max(...x)));
  return powers.map((power) => power / sum(powers));
}

function draw(rows: number, columns: number, seed: number): number[][] {
  const random = uniform(seed);
  return Array.from({ length: rows }, () =>
    Array.from({ length: columns }, () => Math.fround(random() * 6 - 3)),
  );
}

function run(
  op: ComputeOp,
  inputs: readonly { data: readonly number[]; shape: Shape }[],
  params: object,
  shape: Shape,
): number[] {
  const fixture = new KernelFixture();
  const ids = inputs.map(({ data, shape }) => fixture.input(data, 'f32', shape));
  fixture.outputs.push(fixture.op(op, ids, params, shape));
  return fixture.run()[0] ?? [];
}

function expectClose(actual: readonly number[], expected: readonly number[], bound = 2e-6): void {
  expect(actual).toHaveLength(expected.length);
  const scale = Math.max(1, ...expected.map(Math.abs));
  actual.forEach((value, i) => {
    expect(Math.abs(value - (expected[i] ?? NaN))).toBeLessThan(bound * scale);
  });
}

describe.each(SHAPES)('on rows [%i, %i]', (rows, columns) => {
  const shape = [rows, columns];
  const matrix = (data: Rows) => ({ data: data.flat(), shape });
  const vector = (data: readonly number[]) => ({ data, shape: [columns] });
  const x = draw(rows, columns, 1);
  const dy = draw(rows, columns, 2);
  const [weight = [], bias = []] = draw(2, columns, 3);
  const rowOf = (data: Rows, r: number): readonly number[] => data[r] ?? [];

  test('softmax', () => {
    expectClose(run('softmax', [matrix(x)], {}, shape), x.flatMap(softmax));
  });

  test('softmaxGrad', () => {
    const y = x.map(softmax);
    const expected = y.flatMap((row, r) => {
      const total = dot(row, rowOf(dy, r));
      return row.map((value, i) => value * ((rowOf(dy, r)[i] ?? 0) - total));
    });
    expectClose(run('softmaxGrad', [matrix(y), matrix(dy)], {}, shape), expected);
  });

  test('logSoftmax', () => {
    const expected = x.flatMap((row) => softmax(row).map(Math.log));
    expectClose(run('logSoftmax', [matrix(x)], {}, shape), expected);
  });

  test('logSoftmaxGrad', () => {
    const y = x.map((row) => softmax(row).map(Math.log));
    const expected = y.flatMap((row, r) => {
      const total = sum(rowOf(dy, r));
      return row.map((value, i) => (rowOf(dy, r)[i] ?? 0) - Math.exp(value) * total);
    });
    expectClose(run('logSoftmaxGrad', [matrix(y), matrix(dy)], {}, shape), expected);
  });

  test('layerNorm', () => {
    const expected = x.flatMap((row) =>
      times(normalized(row, 'layerNorm').values, weight).map((value, i) => value + (bias[i] ?? 0)),
    );
    const inputs = [matrix(x), vector(weight), vector(bias)];
    expectClose(run('layerNorm', inputs, { eps: EPS }, shape), expected);
  });

  test('rmsNorm', () => {
    const expected = x.flatMap((row) => times(normalized(row, 'rmsNorm').values, weight));
    expectClose(run('rmsNorm', [matrix(x), vector(weight)], { eps: EPS }, shape), expected);
  });

  test.each(['layerNorm', 'rmsNorm'] as const)('%sInputGrad', (norm) => {
    const expected = x.flatMap((row, r) => inputGrad(row, weight, rowOf(dy, r), norm));
    const inputs = [matrix(x), vector(weight), matrix(dy)];
    // A row of one element has no variance, so rstd is 1 / sqrt(eps). The errors are as large.
    const bound = columns === 1 ? 1e-3 : 4e-6;
    expectClose(run(`${norm}InputGrad`, inputs, { eps: EPS }, shape), expected, bound);
  });

  test.each(['layerNorm', 'rmsNorm'] as const)('%sWeightGrad', (norm) => {
    const inputs = [matrix(x), matrix(dy)];
    const actual = run(`${norm}WeightGrad`, inputs, { eps: EPS }, [columns]);
    expectClose(actual, weightGrad(x, dy, norm));
  });

  test.each(['layerNorm', 'rmsNorm'] as const)('all gradients of %s in one pass', (norm) => {
    const residual = draw(rows, columns, 4);
    const fixture = new KernelFixture();
    const ids = [x, dy, residual].map((data) => fixture.input(data.flat(), 'f32', shape));
    const [xId = 0, dyId = 0, residualId = 0] = ids;
    const weightId = fixture.input(weight, 'f32', [columns]);
    const params = { eps: EPS };
    const dx = fixture.op(`${norm}InputGrad`, [xId, weightId, dyId], params, shape);
    const outputs = [
      fixture.op('add', [residualId, dx], {}, shape),
      fixture.op(`${norm}WeightGrad`, [xId, dyId], params, [columns]),
      fixture.op('sum', [dyId], { dims: [0] }, [columns]),
    ];
    fixture.outputs.push(...outputs);
    const [sumOfBoth = [], dweight = [], dbias = []] = fixture.run();
    const added = x.flatMap((row, r) =>
      inputGrad(row, weight, rowOf(dy, r), norm).map((v, i) => v + (rowOf(residual, r)[i] ?? 0)),
    );
    expectClose(sumOfBoth, added, columns === 1 ? 1e-3 : 4e-6);
    expectClose(dweight, weightGrad(x, dy, norm));
    expectClose(
      dbias,
      weight.map((_, i) => sum(dy.map((row) => row[i] ?? 0))),
    );
    expect(fixture.compile(sharedMemory(65536)).storage).toEqual(expect.arrayContaining(outputs));
    expect(fixture.compile(sharedMemory(65536)).storage).toHaveLength(outputs.length);
  });

  test('a gradient by the input that is read twice stays a value of its own', () => {
    const fixture = new KernelFixture();
    const xId = fixture.input(x.flat(), 'f32', shape);
    const weightId = fixture.input(weight, 'f32', [columns]);
    const dx = fixture.op('layerNormInputGrad', [xId, weightId, xId], { eps: EPS }, shape);
    fixture.outputs.push(dx, fixture.op('add', [dx, xId], {}, shape));
    const [gradient = [], total = []] = fixture.run();
    expect(total).toEqual(gradient.map((value, i) => Math.fround(value + (x.flat()[i] ?? 0))));
  });

  test('sum over the last dim', () => {
    expectClose(run('sum', [matrix(x)], { dims: [1] }, [rows]), x.map(sum));
  });

  test('sum over the first dim', () => {
    const expected = weight.map((_, i) => sum(x.map((row) => row[i] ?? 0)));
    expectClose(run('sum', [matrix(x)], { dims: [0] }, [columns]), expected);
  });
});

describe('sum', () => {
  const cube = draw(6, 5, 4).flat();
  const at = (i: number, j: number, k: number): number => cube[(i * 3 + j) * 5 + k] ?? 0;

  test('over a middle dim', () => {
    const expected = [0, 1].flatMap((i) =>
      [0, 1, 2, 3, 4].map((k) => sum([0, 1, 2].map((j) => at(i, j, k)))),
    );
    expectClose(run('sum', [{ data: cube, shape: [2, 3, 5] }], { dims: [1] }, [2, 5]), expected);
  });

  test('over several leading and over all dims', () => {
    const input = [{ data: cube, shape: [2, 3, 5] }];
    const leading = [0, 1, 2, 3, 4].map((k) =>
      sum([0, 1].flatMap((i) => [0, 1, 2].map((j) => at(i, j, k)))),
    );
    expectClose(run('sum', input, { dims: [0, 1] }, [5]), leading);
    expectClose(run('sum', input, { dims: [0, 1, 2] }, []), [sum(cube)]);
  });

  test('over nothing is 0', () => {
    expect(run('sum', [{ data: [], shape: [0, 3] }], { dims: [0] }, [3])).toEqual([0, 0, 0]);
    expect(run('sum', [{ data: [], shape: [2, 0] }], { dims: [1] }, [2])).toEqual([0, 0]);
    expect(run('sum', [{ data: [], shape: [0, 3] }], { dims: [1] }, [0])).toEqual([]);
  });

  test('of many numbers keeps its digits', () => {
    const data = Array.from({ length: 100_003 }, (_, i) => Math.fround(1 + (i % 7) / 10));
    const [actual = NaN] = run('sum', [{ data, shape: [data.length] }], { dims: [0] }, []);
    expect(Math.abs(actual / sum(data) - 1)).toBeLessThan(1.2e-7);
  });

  test('over dims that are apart is left to others', () => {
    const type = { shape: [2, 3, 4], dtype: 'f32' } as const;
    const instruction = { op: 'sum', params: { dims: [0, 2] }, inputs: [0] } as const;
    expect(wasmHandles({ ...instruction, shape: [3], dtype: 'f32' }, [type])).toBe(false);
    const flat = { shape: [2, 1, 4], dtype: 'f32' } as const;
    expect(wasmHandles({ ...instruction, shape: [1], dtype: 'f32' }, [flat])).toBe(true);
  });
});

describe('softmax of special rows', () => {
  const softmaxOf = (row: readonly number[]): number[] =>
    run('softmax', [{ data: row, shape: [1, row.length] }], {}, [1, row.length]);

  test('masked elements get exactly 0', () => {
    expect(softmaxOf([1, -Infinity, 1, -1e9, -Infinity])).toEqual([0.5, 0, 0.5, 0, 0]);
  });

  test('a row of nothing but masked elements, or with NaN, is NaN', () => {
    expect(softmaxOf([-Infinity, -Infinity])).toEqual([NaN, NaN]);
    expect(softmaxOf([1, NaN, 2, 3, 4])).toEqual([NaN, NaN, NaN, NaN, NaN]);
  });

  test('large inputs do not overflow', () => {
    expect(softmaxOf([1e30, 1e30])).toEqual([0.5, 0.5]);
  });
});
