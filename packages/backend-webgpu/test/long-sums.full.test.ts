import type { Program, Shape } from '@shardwise/core/spec';
import { evaluate, interpreter, NdArray, uniform } from '@shardwise/testing';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type WebGpuBackend, webgpu } from '../src/index.ts';

const reason = await reasonWithoutDevice(webgpu);
const unitRoundoff = 2 ** -24;

interface Product {
  readonly a: Shape;
  readonly b: Shape;
  readonly result: Shape;
  readonly terms: number;
  readonly transposeA?: boolean;
  readonly transposeB?: boolean;
}

const products: Readonly<Record<string, Product>> = {
  'the gradient of the weights of a small layer': {
    a: [2048, 48],
    b: [2048, 40],
    result: [48, 40],
    terms: 2048,
    transposeA: true,
  },
  'few elements and many terms': { a: [20, 1536], b: [1536, 50], result: [20, 50], terms: 1536 },
  'the same of transposed matrices': {
    a: [20, 1536],
    b: [50, 1536],
    result: [20, 50],
    terms: 1536,
    transposeB: true,
  },
  'parts whose number is no power of two': {
    a: [1, 33, 900],
    b: [900, 35],
    result: [1, 33, 35],
    terms: 900,
  },
  'terms that have no divisor': { a: [20, 1019], b: [1019, 30], result: [20, 30], terms: 1019 },
  'a row and a matrix': { a: [1, 700], b: [700, 90], result: [1, 90], terms: 700 },
  'a row and a transposed matrix': {
    a: [1, 700],
    b: [90, 700],
    result: [1, 90],
    terms: 700,
    transposeB: true,
  },
  'a matrix and a column': { a: [90, 700], b: [700, 1], result: [90, 1], terms: 700 },
  'a transposed matrix and a column': {
    a: [700, 90],
    b: [1, 700],
    result: [90, 1],
    terms: 700,
    transposeA: true,
    transposeB: true,
  },
  'rows and a matrix that all have': {
    a: [3, 2, 1, 65],
    b: [65, 7],
    result: [3, 2, 1, 7],
    terms: 65,
  },
  'matrices of which each has its column': {
    a: [2, 9, 130],
    b: [3, 1, 130, 1],
    result: [3, 2, 9, 1],
    terms: 130,
  },
  'a row and a column': { a: [1, 5000], b: [5000, 1], result: [1, 1], terms: 5000 },
};

function programOf({ a, b, result, transposeA = false, transposeB = false }: Product): Program {
  const f32 = (shape: Shape) => ({ shape, dtype: 'f32' }) as const;
  const params = { transposeA, transposeB };
  return {
    inputs: [f32(a), f32(b), f32(result)],
    instructions: [
      { op: 'matmul', params, inputs: [0, 1], ...f32(result) },
      { op: 'add', params: {}, inputs: [3, 2], ...f32(result) },
    ],
    outputs: [4],
    updates: [],
  };
}

describe.skipIf(reason !== undefined)(
  `products of few elements${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let device: WebGpuBackend;
    beforeAll(async () => {
      device = await webgpu();
    });
    afterAll(() => device.close());

    test.each(Object.entries(products))(
      '%s: as near to the sum in f64 as its length allows, with the same bits again',
      async (_, product) => {
        const program = programOf(product);
        const inputs = program.inputs.map(({ shape }, i) => uniform(shape, i + 1));
        const outputOf = async (
          backend: Parameters<typeof evaluate>[0],
          of: readonly NdArray[],
        ): Promise<NdArray> => {
          const [output] = (await evaluate(backend, program, of)).outputs;
          if (output === undefined) throw new Error('one output');
          return output;
        };
        const ours = await outputOf(device, inputs);
        const theirs = await outputOf(interpreter(), inputs);
        const absolute = inputs.map((each) => new NdArray(each, each.values.map(Math.abs)));
        const sizes = await outputOf(interpreter(), absolute);
        expect(ours.values.length).toBe(theirs.values.length);
        const beyond = ours.values.filter((value, i) => {
          const bound = (product.terms + 2) * unitRoundoff * (sizes.values[i] ?? NaN);
          return !(Math.abs(value - (theirs.values[i] ?? NaN)) <= bound);
        });
        expect(beyond).toEqual(new Float64Array());
        expect((await outputOf(device, inputs)).values).toEqual(ours.values);
      },
      120_000,
    );
  },
);
