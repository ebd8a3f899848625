import { elementCount } from '@shardwise/core/base';
import type { Backend, Shape } from '@shardwise/core/spec';
import { assertAllclose } from '../../compare/allclose.ts';
import { at, type NdArray } from '../../interpreter/nd-array.ts';
import type { ContractTest } from './contract-test.ts';
import { evaluate, pick } from './device.ts';
import { f32, integers } from './host-value.ts';
import { ProgramBuilder } from './program-builder.ts';

const SHAPE: Shape = [6];
const TERMS = 7;
const SUMS: Shape = [10, 2];
const ROWS: Shape = [...SUMS, TERMS];
const LARGE = 2 ** 127;
const TINY = 2 ** -12;
const NOT_FINITE = f32(SHAPE, [NaN, Infinity, -Infinity, 3, -0.5, 2 ** 100]);

/** Writes a program whose values have one shape. */
interface Writer {
  readonly binary: (op: 'add' | 'sub' | 'mul' | 'div', a: number, b: number) => number;
  readonly unary: (op: 'neg' | 'sqrt', x: number) => number;
  readonly constant: (value: number) => number;
}

interface Case {
  readonly title: string;
  readonly inputs: readonly [NdArray, ...NdArray[]];
  readonly result: (writer: Writer, x: number, y: number) => number;
  /** The elements of the result. One number stands for all of them. */
  readonly expected: readonly number[] | number;
}

const cases: readonly Case[] = [
  {
    title: 'x - x',
    inputs: [NOT_FINITE],
    result: ({ binary }, x) => binary('sub', x, x),
    expected: [NaN, NaN, NaN, 0, 0, 0],
  },
  {
    title: 'x + (-x)',
    inputs: [NOT_FINITE],
    result: ({ binary, unary }, x) => binary('add', x, unary('neg', x)),
    expected: [NaN, NaN, NaN, 0, 0, 0],
  },
  {
    title: 'x / x',
    inputs: [NOT_FINITE],
    result: ({ binary }, x) => binary('div', x, x),
    expected: [NaN, NaN, NaN, 1, 1, 1],
  },
  {
    title: 'x times the constant 0',
    inputs: [NOT_FINITE],
    result: ({ binary, constant }, x) => binary('mul', x, constant(0)),
    expected: [NaN, NaN, NaN, 0, 0, 0],
  },
  {
    title: 'x - x times the constant infinity',
    inputs: [NOT_FINITE],
    result: ({ binary, constant }, x) => binary('mul', binary('sub', x, x), constant(Infinity)),
    expected: NaN,
  },
  {
    title: 'the constant 0 divided by itself',
    inputs: [NOT_FINITE],
    result: ({ binary, constant }) => binary('div', constant(0), constant(0)),
    expected: NaN,
  },
  {
    title: 'a product that overflows before it is made smaller',
    inputs: [f32(SHAPE, LARGE)],
    result: ({ binary, constant }, x) =>
      binary('mul', binary('mul', x, constant(4)), constant(0.25)),
    expected: Infinity,
  },
  {
    title: 'a product that is made smaller before it could overflow',
    inputs: [f32(SHAPE, LARGE)],
    result: ({ binary, constant }, x) =>
      binary('mul', binary('mul', x, constant(0.25)), constant(4)),
    expected: LARGE,
  },
  {
    title: 'a product is rounded before a number is added',
    inputs: [f32(SHAPE, 1 + TINY), f32(SHAPE, -(1 + 2 * TINY))],
    result: ({ binary }, x, y) => binary('add', binary('mul', x, x), y),
    expected: 0,
  },
  {
    title: 'a sum is rounded before a number is subtracted',
    inputs: [f32(SHAPE, 2 ** 24), f32(SHAPE, 1.25)],
    result: ({ binary }, x, y) => binary('sub', binary('add', x, y), x),
    expected: 2,
  },
  {
    title: 'multiples of the divisor',
    inputs: [f32(SHAPE, [6, 21, 35, 91, 13_000_039, 49]), f32(SHAPE, [3, 7, 5, 13, 13, 49])],
    result: ({ binary }, x, y) => binary('div', x, y),
    expected: [2, 3, 7, 7, 1_000_003, 1],
  },
  {
    title: 'divisors near the largest number',
    inputs: [
      f32(SHAPE, [LARGE, -LARGE, 2 ** 100, 3, Infinity, NaN]),
      f32(SHAPE, [1.5 * LARGE, LARGE, LARGE, LARGE, LARGE, LARGE]),
    ],
    result: ({ binary }, x, y) => binary('div', x, y),
    expected: [Math.fround(2 / 3), -1, 2 ** -27, 1.5 * 2 ** -126, Infinity, NaN],
  },
  {
    title: 'square roots of squares, and of 2',
    inputs: [f32(SHAPE, [9, 49, 121, 16_769_025, 2, Infinity])],
    result: ({ unary }, x) => unary('sqrt', x),
    expected: [3, 7, 11, 4095, Math.fround(Math.SQRT2), Infinity],
  },
];

/**
 * Tests that every operation rounds its exact result once, and that NaN and infinities arise as in IEEE 754. A compiler
 * that may simplify breaks both: it makes 0 of x - x, and a * b + c with one rounding.
 */
export const roundingTests: readonly ContractTest[] = [
  ...cases.map(({ title, inputs, result, expected }) => ({
    title,
    check: async (backend: Backend): Promise<void> => {
      const b = new ProgramBuilder();
      const ids = inputs.map(() => b.input(SHAPE));
      const writer: Writer = {
        binary: (op, x, y) => b.op({ op, params: {} }, [x, y], SHAPE),
        unary: (op, x) => b.op({ op, params: {} }, [x], SHAPE),
        constant: (value) => {
          return b.op({ op: 'constant', params: { value, shape: SHAPE, dtype: 'f32' } }, [], SHAPE);
        },
      };
      const program = b.build(result(writer, pick(ids, 0), ids.at(-1) ?? 0));
      const { outputs } = await evaluate(backend, program, inputs);
      assertAllclose(pick(outputs, 0), f32(SHAPE, expected), { rtol: 0, atol: 0 });
    },
  })),
  {
    title: 'sums of a few numbers, each minus another one',
    check: async (backend) => {
      const [x, y] = [integers(ROWS, 1), integers(ROWS, 2)];
      const b = new ProgramBuilder();
      const [first, second] = [b.input(ROWS), b.input(ROWS)];
      const negative = b.op({ op: 'neg', params: {} }, [first], ROWS);
      const terms = b.op({ op: 'add', params: {} }, [negative, second], ROWS);
      const sums = b.op({ op: 'sum', params: { dims: [2] } }, [terms], SUMS);
      const { outputs } = await evaluate(backend, b.build(sums), [x, y]);
      const differences = Array.from(y.values, (value, i) => value - at(x.values, i));
      const expected = Array.from({ length: elementCount(SUMS) }, (_, row) =>
        differences.slice(TERMS * row, TERMS * (row + 1)).reduce((sum, term) => sum + term, 0),
      );
      assertAllclose(pick(outputs, 0), f32(SUMS, expected), { rtol: 0, atol: 0 });
    },
  },
];
