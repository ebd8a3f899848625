import type { DType, PrimitiveOp } from '@shardwise/core/spec';
import type { Tolerance } from '../../../compare/allclose.ts';
import type { NdArray } from '../../../interpreter/nd-array.ts';
import { at } from '../../../interpreter/nd-array.ts';
import { bool, f32, hostValue, i32, integers, uniform } from '../host-value.ts';
import { SHAPES, label } from '../op-case.ts';
import type { OpCase, OpCases } from '../op-case.ts';
import { narrowCastCases } from './narrow-casts.ts';
import type { Operation } from '../program-builder.ts';

type Unary =
  | 'neg'
  | 'abs'
  | 'sign'
  | 'exp'
  | 'log'
  | 'sqrt'
  | 'sin'
  | 'cos'
  | 'atan'
  | 'tanh'
  | 'erf';
type Rounding = 'floor' | 'ceil';
type Arithmetic = 'add' | 'sub' | 'mul' | 'div' | 'pow' | 'maximum' | 'minimum' | 'fmod';
type Comparison = 'equal' | 'less' | 'lessEqual';
type Logical = 'logicalNot' | 'logicalAnd' | 'logicalOr';
type Elementwise = Unary | Rounding | Arithmetic | Comparison | Logical | 'cast' | 'where';

/** Allows for about ten units in the last place. For results below 1 it is the same absolute error as for 1. */
const TRANSCENDENTAL: Tolerance = { rtol: 1e-6, atol: 1e-6 };
/** For division and roots, which not every device rounds correctly. */
const NEARLY_ROUNDED: Tolerance = { rtol: 3e-7, atol: 0 };

const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
const SPECIAL = [0, -0, 1, -1, 0.5, -0.5, 2.5, -2.5, 1e30, -1e30, inf, -inf, nan];
/** Every pair of special values. */
const LEFT = SPECIAL.flatMap((a) => SPECIAL.map(() => a));
const RIGHT = SPECIAL.flatMap(() => SPECIAL);
const INTEGERS = [0, 1, -1, 2, -2, 7, -7, 100_003, -100_003, 2 ** 31 - 1, -(2 ** 31)];

export const elementwiseCases: OpCases<Elementwise & PrimitiveOp> = {
  neg: () => [...unary('neg', (x) => -x), special('neg', (x) => -x), whole('neg', (x) => -x)],
  abs: () => [...unary('abs', Math.abs), special('abs', Math.abs), whole('abs', Math.abs)],
  sign: () => [
    ...unary('sign', Math.sign),
    special('sign', (x) => Math.sign(x) || 0),
    whole('sign', Math.sign),
  ],
  exp: () => [
    ...unary('exp', Math.exp, { low: -10, high: 10, tolerance: TRANSCENDENTAL }),
    special('exp', Math.exp, without(0.5, -0.5, 2.5, -2.5, 1, -1)),
    values('exp', 'underflows to 0 and overflows to infinity', [-200, 200], [0, inf]),
  ],
  log: () => [
    ...unary('log', Math.log, { low: 0.001, high: 20, tolerance: TRANSCENDENTAL }),
    values(
      'log',
      'of 0, negative and infinite values',
      [0, -1, inf, nan, 1],
      [-inf, nan, inf, nan, 0],
    ),
  ],
  sqrt: () => [
    ...unary('sqrt', Math.sqrt, { low: 0, high: 9, tolerance: NEARLY_ROUNDED }),
    values('sqrt', 'of negative and infinite values', [-1, inf, 0, nan, 4], [nan, inf, 0, nan, 2]),
  ],
  sin: () => [
    ...unary('sin', Math.sin, { low: -4, high: 4, tolerance: TRANSCENDENTAL }),
    values('sin', 'of infinite values', [inf, -inf, nan, 0], [nan, nan, nan, 0]),
  ],
  cos: () => [
    ...unary('cos', Math.cos, { low: -4, high: 4, tolerance: TRANSCENDENTAL }),
    values('cos', 'of infinite values', [inf, -inf, nan, 0], [nan, nan, nan, 1]),
  ],
  atan: () => [
    ...unary('atan', Math.atan, { low: -8, high: 8, tolerance: TRANSCENDENTAL }),
    values(
      'atan',
      'of infinite values',
      [inf, -inf, nan, 0, 1e-20],
      [Math.PI / 2, -Math.PI / 2, nan, 0, 1e-20],
      TRANSCENDENTAL,
    ),
  ],
  tanh: () => [
    ...unary('tanh', Math.tanh, { low: -6, high: 6, tolerance: TRANSCENDENTAL }),
    values('tanh', 'saturates', [inf, -inf, 100, -100, nan, 0], [1, -1, 1, -1, nan, 0]),
  ],
  erf: () => [
    // The values of erf at 0, 0.5, 1 and 2 are those of https://dlmf.nist.gov/7.23.
    values(
      'erf',
      'has its tabulated values',
      [0, 0.5, 1, 2, -1, inf, -inf, nan],
      [0, 0.5204998778, 0.8427007929, 0.995322265, -0.8427007929, 1, -1, nan],
      TRANSCENDENTAL,
    ),
    ...SHAPES.map((shape): OpCase => {
      const expected = { shape, dtype: 'f32' } as const;
      const inputs = [uniform(shape, 1, -4, 4)];
      const operation: Operation = { op: 'erf', params: {} };
      return {
        title: `f32 ${label(shape)}`,
        operation,
        inputs,
        expected,
        tolerance: TRANSCENDENTAL,
      };
    }),
  ],
  floor: () => [...unary('floor', Math.floor, { low: -9, high: 9 }), special('floor', Math.floor)],
  ceil: () => [...unary('ceil', Math.ceil, { low: -9, high: 9 }), special('ceil', Math.ceil)],

  add: () => [...arithmetic('add', (a, b) => a + b), overflow('add', (a, b) => a + b)],
  sub: () => [...arithmetic('sub', (a, b) => a - b), overflow('sub', (a, b) => a - b)],
  mul: () => [...arithmetic('mul', (a, b) => a * b), overflow('mul', (a, b) => Math.imul(a, b))],
  div: () => [
    ...binary('div', (a, b) => a / b, NEARLY_ROUNDED),
    pairs('div', (a, b) => a / b, NEARLY_ROUNDED),
    integerDivision(),
  ],
  pow: () => [
    ...SHAPES.map((shape) => {
      const inputs = [uniform(shape, 1, 0.1, 4), uniform(shape, 2, -3, 3)] as const;
      const tolerance = { rtol: 4e-6, atol: 0 };
      return pointwise(`f32 ${label(shape)}`, { op: 'pow', params: {} }, inputs, (a, b) => a ** b, {
        tolerance,
      });
    }),
    {
      title: 'of 1 is 1, whatever the exponent',
      operation: { op: 'pow', params: {} },
      inputs: [f32([4], 1), f32([4], [nan, inf, -inf, 0])],
      expected: f32([4], 1),
    },
    {
      title: 'of zero and negative bases, with whole exponents',
      operation: { op: 'pow', params: {} },
      inputs: [
        f32([9], [-2, -2, 0, 0, nan, 2, -8, 9, 0]),
        f32([9], [3, 2, 0, 2, 0, -1, 0.5, 0.5, -1]),
      ],
      expected: f32([9], [-8, 4, 1, 0, 1, 0.5, nan, 3, inf]),
      tolerance: { rtol: 1e-6, atol: 0 },
    },
    {
      title: 'of i32 wraps around',
      operation: { op: 'pow', params: {} },
      inputs: [
        i32([8], [3, -2, 7, 0, 0, 10, 1, -1]),
        i32([8], [40, 31, 0, 0, 5, 9, 2 ** 30, 2 ** 31 - 1]),
      ],
      expected: i32([8], [689_956_897, -(2 ** 31), 1, 1, 0, 10 ** 9, 1, -1]),
    },
    {
      title: 'of i32 with negative exponents is 0, but of 1 and -1',
      operation: { op: 'pow', params: {} },
      inputs: [i32([7], [2, -3, 0, 1, -1, -1, 1]), i32([7], [-1, -2, -1, -5, -3, -4, -(2 ** 31)])],
      expected: i32([7], [0, 0, 0, 1, -1, 1, 1]),
    },
  ],
  maximum: () => arithmetic('maximum', (a, b) => Math.max(a, b)),
  minimum: () => arithmetic('minimum', (a, b) => Math.min(a, b)),

  fmod: () => [
    ...binary('fmod', (a, b) => a % b),
    {
      title: 'is exact, has the sign of the first, and is NaN where there is none',
      operation: { op: 'fmod', params: {} },
      inputs: [
        f32([10], [7, -7, 7, -7, 16_777_216, 1, inf, 3, 3, nan]),
        f32([10], [3, 3, -3, -3, 3, inf, 2, 0, -inf, 1]),
      ],
      expected: f32([10], [1, -1, 1, -1, 1, 1, nan, nan, 3, nan]),
    },
  ],

  equal: () => comparison('equal', (a, b) => a === b),
  less: () => comparison('less', (a, b) => a < b),
  lessEqual: () => comparison('lessEqual', (a, b) => a <= b),

  logicalNot: () => [
    pointwise(
      'turns every bool',
      { op: 'logicalNot', params: {} },
      [bool([2], [0, 1])],
      (x) => 1 - x,
      {
        dtype: 'bool',
      },
    ),
    ...SHAPES.map((shape) =>
      pointwise(
        `bool ${label(shape)}`,
        { op: 'logicalNot', params: {} },
        [bits(shape, 1)],
        (x) => 1 - x,
        {
          dtype: 'bool',
        },
      ),
    ),
  ],
  logicalAnd: () => logical('logicalAnd', (a, b) => a * b),
  logicalOr: () => logical('logicalOr', (a, b) => Math.max(a, b)),

  cast: () => castCases(),
  where: () => whereCases(),
};

interface Range {
  readonly low?: number;
  readonly high?: number;
  readonly tolerance?: Tolerance;
}

interface Outcome {
  readonly dtype?: DType;
  readonly tolerance?: Tolerance;
}

/** Makes a case of an elementwise op on inputs of one shape. `f` computes the expected elements. */
function pointwise(
  title: string,
  operation: Operation,
  inputs: readonly NdArray[],
  f: (a: number, b: number) => number,
  { dtype = 'f32', tolerance = {} }: Outcome = {},
): OpCase {
  const [a, b] = inputs;
  const { shape, values } = a ?? f32([], 0);
  const elements = Array.from(values, (x, i) => f(x, b === undefined ? nan : at(b.values, i)));
  const expected = hostValue(shape, dtype, elements);
  return { title, operation, inputs, expected, tolerance };
}

function unary(op: Unary | Rounding, f: (x: number) => number, range: Range = {}): OpCase[] {
  const { low = -3, high = 3, tolerance = {} } = range;
  return SHAPES.map((shape) =>
    pointwise(`f32 ${label(shape)}`, { op, params: {} }, [uniform(shape, 1, low, high)], f, {
      tolerance,
    }),
  );
}

function values(
  op: Unary,
  title: string,
  inputs: readonly number[],
  outputs: readonly number[],
  tolerance: Tolerance = {},
): OpCase {
  const shape = [inputs.length];
  const operation: Operation = { op, params: {} };
  return {
    title,
    operation,
    inputs: [f32(shape, inputs)],
    expected: f32(shape, outputs),
    tolerance,
  };
}

function special(op: Unary | Rounding, f: (x: number) => number, inputs = SPECIAL): OpCase {
  const title = 'NaN, infinities, zeros and large values';
  return pointwise(title, { op, params: {} }, [f32([inputs.length], inputs)], f);
}

function without(...left: number[]): number[] {
  return SPECIAL.filter((x) => !left.some((value) => Object.is(value, x)));
}

function whole(op: Unary, f: (x: number) => number): OpCase {
  const inputs = INTEGERS.slice(0, -1);
  return pointwise('i32', { op, params: {} }, [i32([inputs.length], inputs)], f, { dtype: 'i32' });
}

function binary(
  op: Arithmetic,
  f: (a: number, b: number) => number,
  tolerance: Tolerance = {},
): OpCase[] {
  return SHAPES.map((shape) =>
    pointwise(
      `f32 ${label(shape)}`,
      { op, params: {} },
      [uniform(shape, 1), uniform(shape, 2)],
      f,
      { tolerance },
    ),
  );
}

function pairs(
  op: Arithmetic,
  f: (a: number, b: number) => number,
  tolerance: Tolerance = {},
): OpCase {
  const inputs = [f32([LEFT.length], LEFT), f32([RIGHT.length], RIGHT)];
  return pointwise('every pair of special values', { op, params: {} }, inputs, f, { tolerance });
}

function arithmetic(op: Arithmetic, f: (a: number, b: number) => number): OpCase[] {
  const inputs = (seed: number): NdArray =>
    integers([5, 31], seed, { low: -999, high: 999, dtype: 'i32' });
  const whole = pointwise('i32', { op, params: {} }, [inputs(1), inputs(2)], f, { dtype: 'i32' });
  return [...binary(op, f), pairs(op, f), whole];
}

function overflow(op: 'add' | 'sub' | 'mul', f: (a: number, b: number) => number): OpCase {
  const inputs = [INTEGERS.flatMap((a) => INTEGERS.map(() => a)), INTEGERS.flatMap(() => INTEGERS)];
  const operands = inputs.map((elements) => i32([elements.length], elements));
  return pointwise('i32 wraps around', { op, params: {} }, operands, f, { dtype: 'i32' });
}

function integerDivision(): OpCase {
  return {
    title: 'i32 truncates towards zero',
    operation: { op: 'div', params: {} },
    inputs: [
      i32([9], [7, -7, 7, -7, 1, -1, 0, 2_147_483_647, 6]),
      i32([9], [2, 2, -2, -2, 3, 3, 5, 10, -3]),
    ],
    expected: i32([9], [3, -3, -3, 3, 0, 0, 0, 214_748_364, -2]),
  };
}

function comparison(op: Comparison, holds: (a: number, b: number) => boolean): OpCase[] {
  const f = (a: number, b: number): number => Number(holds(a, b));
  const operation: Operation = { op, params: {} };
  const numbers = (shape: readonly number[], seed: number, dtype: DType): NdArray =>
    integers(shape, seed, { low: -1, high: 1, dtype });
  return [
    ...SHAPES.flatMap((shape) =>
      (['f32', 'i32'] as const).map((dtype) =>
        pointwise(
          `${dtype} ${label(shape)}`,
          operation,
          [numbers(shape, 1, dtype), numbers(shape, 2, dtype)],
          f,
          { dtype: 'bool' },
        ),
      ),
    ),
    pointwise(
      'is false with NaN, and equates the zeros',
      operation,
      [f32([LEFT.length], LEFT), f32([RIGHT.length], RIGHT)],
      f,
      { dtype: 'bool' },
    ),
  ];
}

function bits(shape: readonly number[], seed: number): NdArray {
  return integers(shape, seed, { low: 0, high: 1, dtype: 'bool' });
}

function logical(op: 'logicalAnd' | 'logicalOr', f: (a: number, b: number) => number): OpCase[] {
  const operation: Operation = { op, params: {} };
  const table = [bool([4], [0, 0, 1, 1]), bool([4], [0, 1, 0, 1])];
  return [
    pointwise('its truth table', operation, table, f, { dtype: 'bool' }),
    ...SHAPES.map((shape) =>
      pointwise(`bool ${label(shape)}`, operation, [bits(shape, 1), bits(shape, 2)], f, {
        dtype: 'bool',
      }),
    ),
  ];
}

function castCases(): OpCase[] {
  const convert = (title: string, x: NdArray, expected: NdArray): OpCase => ({
    title,
    operation: { op: 'cast', params: { dtype: expected.dtype } },
    inputs: [x],
    expected,
  });
  const fractions = [1.9, -1.9, 0.99, -0.99, 2, -2, 0, 1e9];
  return [
    convert(
      'f32 to i32 truncates towards zero',
      f32([8], fractions),
      i32([8], [1, -1, 0, 0, 2, -2, 0, 1e9]),
    ),
    convert(
      'f32 to bool is != 0',
      f32([6], [0, -0, 0.25, -3, nan, inf]),
      bool([6], [0, 0, 1, 1, 1, 1]),
    ),
    convert('i32 to bool is != 0', i32([4], [0, 1, -1, 256]), bool([4], [0, 1, 1, 1])),
    convert('i32 to f32', i32([4], [0, 7, -7, 16_777_216]), f32([4], [0, 7, -7, 16_777_216])),
    convert('bool to f32', bool([3], [0, 1, 1]), f32([3], [0, 1, 1])),
    convert('bool to i32', bool([3], [0, 1, 1]), i32([3], [0, 1, 1])),
    convert('f32 to f32', f32([3], [0.5, -0, nan]), f32([3], [0.5, -0, nan])),
    convert('i32 to i32', i32([2], [5, -5]), i32([2], [5, -5])),
    ...SHAPES.map((shape) =>
      convert(`f32 ${label(shape)} to i32`, f32(shape, -2.5), i32(shape, -2)),
    ),
    ...SHAPES.map((shape) => convert(`bool ${label(shape)} to f32`, bool(shape, 1), f32(shape, 1))),
    ...narrowCastCases(convert),
  ];
}

function whereCases(): OpCase[] {
  const dtypes: readonly DType[] = ['f32', 'i32', 'bool'];
  return [
    ...SHAPES.flatMap((shape) =>
      dtypes.map((dtype): OpCase => {
        const condition = bits(shape, 3);
        const [low, high] = dtype === 'bool' ? [0, 1] : [-9, 9];
        const [a, b] = [
          integers(shape, 4, { low, high, dtype }),
          integers(shape, 5, { low, high, dtype }),
        ];
        const chosen = Array.from(condition.values, (c, i) => at((c === 1 ? a : b).values, i));
        return {
          title: `${dtype} ${label(shape)}`,
          operation: { op: 'where', params: {} },
          inputs: [condition, a, b],
          expected: hostValue(shape, dtype, chosen),
        };
      }),
    ),
    {
      title: 'keeps NaN and infinities of the side that is not chosen out',
      operation: { op: 'where', params: {} },
      inputs: [bool([4], [1, 0, 1, 0]), f32([4], [1, nan, 3, inf]), f32([4], [nan, 2, -inf, 4])],
      expected: f32([4], [1, 2, 3, 4]),
    },
  ];
}
