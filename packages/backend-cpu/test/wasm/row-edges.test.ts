import type { ComputeOp, ComputeParams, DType, Shape } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { planKernels } from '../../src/kernels/plan-kernels.ts';
import { KernelFixture, uniform } from './kernel-fixture.ts';

/** Builds a program. A value is the number that `op` returns. */
interface Builder {
  readonly input: (dtype: DType, shape: Shape) => number;
  readonly op: <K extends ComputeOp>(
    op: K,
    inputs: readonly number[],
    params: ComputeParams[K],
    shape: Shape,
    dtype?: DType,
  ) => number;
  readonly constant: (value: number, shape: Shape) => number;
}

/** Returns the program's outputs. */
type Build = (builder: Builder, shape: readonly [number, number]) => readonly number[];

const none = {};
const eps = 1e-5;
const wide = (from: Builder, value: number, shape: Shape): number =>
  from.op('cast', [value], { dtype: 'f32' }, shape);
const narrow = (from: Builder, value: number, shape: Shape): number =>
  from.op('cast', [value], { dtype: 'bf16' }, shape, 'bf16');

const programs: Readonly<Record<string, Build>> = {
  'a softmax of 16-bit values that is rounded': (b, shape) => {
    const x = wide(b, b.input('bf16', shape), shape);
    return [narrow(b, b.op('softmax', [x], none, shape), shape)];
  },
  'a softmax that is rounded, and read by others as it is': (b, shape) => {
    const y = b.op('softmax', [b.input('f32', shape)], none, shape);
    return [narrow(b, y, shape), y];
  },
  'a scaled gradient of softmax': (b, shape) => {
    const [y, dy] = [wide(b, b.input('bf16', shape), shape), wide(b, b.input('f16', shape), shape)];
    const dx = b.op('softmaxGrad', [y, dy], none, shape);
    return [narrow(b, b.op('mul', [dx, b.constant(0.125, shape)], none, shape), shape)];
  },
  'a norm that is rounded and activated': (b, shape) => {
    const [, columns] = shape;
    const vectors = [b.input('f32', [columns]), b.input('f32', [columns])];
    const y = b.op('layerNorm', [b.input('f32', shape), ...vectors], { eps }, shape);
    return [narrow(b, y, shape), b.op('gelu', [y], { approximate: 'none' }, shape)];
  },
  'gradients of a norm, of which one goes on in 16 bits': (b, shape) => {
    const [, columns] = shape;
    const [x, weight] = [b.input('f32', shape), b.input('f32', [columns])];
    const dy = wide(b, b.input('bf16', shape), shape);
    const dx = b.op('layerNormInputGrad', [x, weight, dy], { eps }, shape);
    const sum = b.op('add', [dx, b.input('f32', shape)], none, shape);
    const dweight = b.op('layerNormWeightGrad', [x, dy], { eps }, [columns]);
    const dbias = b.op('sum', [dy], { dims: [0] }, [columns]);
    return [sum, narrow(b, sum, shape), dweight, dbias];
  },
  'steps that read other elements, and columns that all rows share': (b, shape) => {
    const [, columns] = shape;
    const bias = b.op('reshape', [b.input('f32', [columns])], { shape: [1, columns] }, [
      1,
      columns,
    ]);
    const biases = b.op('expand', [bias], { shape }, shape);
    const y = b.op('logSoftmax', [b.input('f32', shape)], none, shape);
    const moved = b.op(
      'add',
      [b.op('add', [y, biases], none, shape), b.input('f32', shape)],
      none,
      shape,
    );
    return [b.op('sub', [moved, wide(b, b.input('bf16', shape), shape)], none, shape)];
  },
};

/** Returns numbers between -2 and 2, as bits if the dtype has 16 bits. */
function numbers(dtype: DType, count: number, seed: number): number[] {
  const random = uniform(seed);
  const values = Array.from({ length: count }, () => Math.fround(random() * 4 - 2));
  if (dtype === 'f32') return values;
  const bits = new Uint32Array(Float32Array.from(values).buffer);
  // As f16, these bits are numbers of other sizes. The mask keeps them finite.
  return [...bits].map((word) => (word >>> 16) & 0xbfff);
}

const elements = (shape: Shape): number => shape.reduce((product, size) => product * size, 1);

/** Builds the program as one kernel program. All its ops run together. */
function together(build: Build, shape: readonly [number, number]): KernelFixture {
  const fixture = new KernelFixture();
  const outputs = build(
    {
      input: (dtype, of) =>
        fixture.input(numbers(dtype, elements(of), fixture.values.length), dtype, of),
      op: (op, inputs, params, of, dtype) => fixture.op(op, inputs, params, of, dtype),
      constant: (value, of) => fixture.constant(value, of),
    },
    shape,
  );
  fixture.outputs.push(...outputs);
  return fixture;
}

function oneByOne(build: Build, shape: readonly [number, number]): number[][] {
  const values: {
    readonly data: readonly number[];
    readonly dtype: DType;
    readonly shape: Shape;
  }[] = [];
  let count = 0;
  const keep = (data: readonly number[], dtype: DType, of: Shape): number =>
    values.push({ data, dtype, shape: of }) - 1;
  const outputs = build(
    {
      input: (dtype, of) => keep(numbers(dtype, elements(of), count++), dtype, of),
      op: (op, inputs, params, of, dtype = 'f32') => {
        count++;
        const fixture = new KernelFixture();
        const ids = inputs.map((id) => {
          const value = values[id];
          return fixture.input(value?.data ?? [], value?.dtype, value?.shape);
        });
        fixture.outputs.push(fixture.op(op, ids, params, of, dtype));
        return keep(fixture.run()[0] ?? [], dtype, of);
      },
      constant: (value, of) => {
        count += 3;
        return keep(
          Array.from({ length: elements(of) }, () => value),
          'f32',
          of,
        );
      },
    },
    shape,
  );
  return outputs.map((id) => [...(values[id]?.data ?? [])]);
}

/** The programs whose fused kernel sums rows in another order than a separate sum of rows does. */
const inOtherOrder = new Set(['gradients of a norm, of which one goes on in 16 bits']);

function largestDifference(a: readonly number[][], b: readonly number[][]): number {
  const differences = a.flatMap((values, output) =>
    values.map((value, index) => {
      const other = b[output]?.[index] ?? NaN;
      return Object.is(value, other) ? 0 : Math.abs(value - other);
    }),
  );
  return Math.max(...differences);
}

describe.each(Object.entries(programs))('%s', (name, build) => {
  it('is one kernel, with the bits of its parts one after the other', () => {
    for (const shape of [
      [3, 1],
      [5, 7],
      [4, 32],
      [3, 69],
      [2, 130],
    ] as const) {
      const fixture = together(build, shape);
      if (shape[1] > 1) expect(planKernels(fixture).calls).toHaveLength(1);
      const difference = largestDifference(fixture.run(), oneByOne(build, shape));
      expect(difference).toBeLessThanOrEqual(inOtherOrder.has(name) ? 1e-6 : 0);
    }
  });
});
