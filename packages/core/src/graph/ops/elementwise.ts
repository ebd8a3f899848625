import { computeDType } from '../../base/dtype-kind.ts';
import { broadcastShapes, sameShape } from '../../base/shape.ts';
import type { DType, Shape } from '../../spec/dtype.ts';
import { castOps, createNode } from '../create-node.ts';
import {
  at,
  binary as pair,
  bools,
  compare,
  floats,
  numbers,
  requireDType,
  requireSame,
  shapeFault,
  unary as one,
} from '../infer-checks.ts';
import { none, type Node } from '../node.ts';
import {
  linear,
  type NewNodeEntry,
  noGradient,
  pointwise,
  type SimpleEntries,
} from '../op-entry.ts';
import { constantLike, zerosLike } from './leaf.ts';
import { expandTo } from './movement.ts';

type UnaryOp =
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
  | 'erf'
  | 'floor'
  | 'ceil'
  | 'logicalNot';
type BinaryOp =
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  | 'pow'
  | 'maximum'
  | 'minimum'
  | 'fmod'
  | 'equal'
  | 'less'
  | 'lessEqual'
  | 'logicalAnd'
  | 'logicalOr';

// A gradient of zeros is not the same as no gradient. With zeros an optimizer still applies momentum, as in PyTorch.
const zeroGradient = (_: unknown, gy: Node): readonly Node[] => [zerosLike(gy)];

/** Ops that compute each element from those at the same place. Shape: N -> N, and N, N -> N. */
export const elementwiseOps: SimpleEntries<UnaryOp | BinaryOp | 'where'> = {
  neg: {
    ...linear,
    infer: one(numbers),
    gradient: (_, gy) => [neg(gy)],
  },
  abs: {
    ...pointwise,
    infer: one(numbers),
    gradient: (_, gy, _y, x) => [mul(gy, sign(x))],
  },
  sign: {
    ...pointwise,
    infer: one(numbers),
    gradient: zeroGradient,
  },
  exp: {
    ...pointwise,
    infer: one(floats),
    gradient: (_, gy, y) => [mul(gy, y)],
  },
  log: {
    ...pointwise,
    infer: one(floats),
    gradient: (_, gy, _y, x) => [div(gy, x)],
  },
  sqrt: {
    ...pointwise,
    infer: one(floats),
    gradient: (_, gy, y) => [div(scale(gy, 0.5), y)],
  },
  sin: {
    ...pointwise,
    infer: one(floats),
    gradient: (_, gy, _y, x) => [mul(gy, cos(x))],
  },
  cos: {
    ...pointwise,
    infer: one(floats),
    gradient: (_, gy, _y, x) => [neg(mul(gy, sin(x)))],
  },
  atan: {
    ...pointwise,
    infer: one(floats),
    gradient: (_, gy, _y, x) => [div(gy, offset(square(x), 1))],
  },
  tanh: {
    ...pointwise,
    infer: one(floats),
    gradient: (_, gy, y) => [mul(gy, sub(constantLike(y, 1), square(y)))],
  },
  erf: {
    ...pointwise,
    infer: one(floats),
    gradient: (_, gy, _y, x) => [mul(gy, scale(exp(neg(square(x))), 2 / Math.sqrt(Math.PI)))],
  },
  floor: {
    ...pointwise,
    infer: one(floats),
    gradient: zeroGradient,
  },
  ceil: {
    ...pointwise,
    infer: one(floats),
    gradient: zeroGradient,
  },
  logicalNot: {
    ...pointwise,
    infer: one(bools),
    gradient: noGradient,
  },
  add: {
    ...linear,
    infer: pair(numbers),
    gradient: (_, gy) => [gy, gy],
  },
  sub: {
    ...linear,
    infer: pair(numbers),
    gradient: (_, gy) => [gy, neg(gy)],
  },
  mul: {
    ...pointwise,
    linearIn: [[0], [1]],
    infer: pair(numbers),
    gradient: (_, gy, _y, a, b) => [mul(gy, b), mul(gy, a)],
  },
  div: {
    ...pointwise,
    linearIn: [[0]],
    infer: pair(numbers),
    gradient: (_, gy, y, _a, b) => [div(gy, b), neg(mul(gy, div(y, b)))],
  },
  pow: {
    ...pointwise,
    infer: pair(numbers),
    gradient: (_, gy, y, base, exponent) => {
      const zero = zerosLike(gy);
      const byBase = mul(gy, mul(exponent, pow(base, offset(exponent, -1))));
      const isFlat = logicalAnd(equal(base, zero), lessEqual(zero, exponent));
      return [
        where(equal(exponent, zero), zero, byBase),
        mul(gy, where(isFlat, zero, mul(y, log(base)))),
      ];
    },
  },
  maximum: {
    ...pointwise,
    infer: pair(numbers),
    gradient: (_, gy, _y, a, b) => chosenGradient(gy, less(a, b), less(b, a), equal(a, b)),
  },
  minimum: {
    ...pointwise,
    infer: pair(numbers),
    gradient: (_, gy, _y, a, b) => chosenGradient(gy, less(b, a), less(a, b), equal(a, b)),
  },
  fmod: {
    ...pointwise,
    infer: pair(floats),
    gradient: (_, gy, _y, a, b) => [gy, neg(mul(gy, truncate(div(a, b))))],
  },
  equal: { ...pointwise, infer: compare, gradient: noGradient },
  less: { ...pointwise, infer: compare, gradient: noGradient },
  lessEqual: { ...pointwise, infer: compare, gradient: noGradient },
  logicalAnd: { ...pointwise, infer: pair(bools), gradient: noGradient },
  logicalOr: { ...pointwise, infer: pair(bools), gradient: noGradient },
  where: {
    ...pointwise,
    dtypes: 'any',
    linearIn: [[1, 2]],
    infer: (_, inputs) => {
      const [condition, a, b] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
      requireDType('where', condition, bools);
      requireSame('where', [a, b]);
      if (!sameShape(condition.shape, a.shape))
        throw shapeFault('where', inputs, 'shapes that differ', 'Expand them to one shape');
      return a;
    },
    gradient: (_, gy, _y, condition) => [
      null,
      where(condition, gy, zerosLike(gy)),
      where(condition, zerosLike(gy), gy),
    ],
  },
};

/**
 * The gradient goes to the one of two values that is chosen. Equal values share it. If one of them is NaN, both get all
 * of it, as in PyTorch.
 */
function chosenGradient(gradient: Node, isLostA: Node, isLostB: Node, isTie: Node): Node[] {
  const shared = where(isTie, scale(gradient, 0.5), gradient);
  return [isLostA, isLostB].map((isLost) => where(isLost, zerosLike(gradient), shared));
}

const unary =
  (op: UnaryOp, entry: NewNodeEntry<UnaryOp> = elementwiseOps[op]) =>
  (x: Node): Node =>
    createNode(entry, op, none, [x]);

const binary =
  (op: BinaryOp, entry: NewNodeEntry<BinaryOp> = elementwiseOps[op]) =>
  (a: Node, b: Node): Node => {
    if (sameShape(a.shape, b.shape)) return createNode(entry, op, none, [a, b]);
    const shape = broadcastShapes(op, a.shape, b.shape);
    return createNode(entry, op, none, [expandTo(a, shape, b), expandTo(b, shape, a)]);
  };

type Unary = (x: Node) => Node;
/** Inputs broadcast. Shape: N, N' -> broadcast(N, N'). */
type Binary = (a: Node, b: Node) => Node;

export const neg: Unary = unary('neg');
export const abs: Unary = unary('abs');
export const sign: Unary = unary('sign');
export const exp: Unary = unary('exp');
export const log: Unary = unary('log');
export const sqrt: Unary = unary('sqrt');
export const sin: Unary = unary('sin');
export const cos: Unary = unary('cos');
export const atan: Unary = unary('atan');
export const tanh: Unary = unary('tanh');
export const erf: Unary = unary('erf');
export const floor: Unary = unary('floor');
export const ceil: Unary = unary('ceil');
export const logicalNot: Unary = unary('logicalNot');

/** Shape: N, N -> N. */
export const add: Binary = binary('add');
export const sub: Binary = binary('sub');
/** The product of elements. Shape: N, N -> N. */
export const mul: Binary = binary('mul');
export const div: Binary = binary('div');
export const pow: Binary = binary('pow');
export const maximum: Binary = binary('maximum');
export const minimum: Binary = binary('minimum');
export const fmod: Binary = binary('fmod');
export const equal: Binary = binary('equal');
export const less: Binary = binary('less');
export const lessEqual: Binary = binary('lessEqual');
export const logicalAnd: Binary = binary('logicalAnd');
export const logicalOr: Binary = binary('logicalOr');

export function cast(x: Node, dtype: DType): Node {
  return x.dtype === dtype ? x : createNode(castOps.cast, 'cast', { dtype }, [x]);
}

/** All three inputs broadcast. */
export function where(condition: Node, a: Node, b: Node): Node {
  const shape: Shape = broadcastShapes(
    'where',
    broadcastShapes('where', condition.shape, a.shape),
    b.shape,
  );
  const like = [condition, a, b].find(({ rowCount }) => rowCount !== null) ?? null;
  return createNode(elementwiseOps.where, 'where', none, [
    expandTo(condition, shape, like),
    expandTo(a, shape, like),
    expandTo(b, shape, like),
  ]);
}

/**
 * An op of x and a number known when the graph is built. If x has fewer bits than the dtype that is computed with, the
 * number is not rounded to the dtype of x.
 */
export function withNumber(op: Binary, x: Node, value: number): Node {
  const wide = cast(x, computeDType(x.dtype));
  return cast(op(wide, constantLike(wide, value)), x.dtype);
}

/** x times a number known when the graph is built. */
export function scale(x: Node, factor: number): Node {
  return withNumber(mul, x, factor);
}

/** x plus a number known when the graph is built. */
export function offset(x: Node, amount: number): Node {
  return withNumber(add, x, amount);
}

/** Rounds towards zero. */
export function truncate(x: Node): Node {
  return where(less(x, constantLike(x, 0)), ceil(x), floor(x));
}

export function square(x: Node): Node {
  return createNode(elementwiseOps.mul, 'mul', none, [x, x]);
}
