import { computeDType } from '../../base/dtype-kind.ts';
import { broadcastShapes, sameShape } from '../../base/shape.ts';
import type { DType, Shape } from '../../spec/dtype.ts';
import { castEntry, createNode } from '../create-node.ts';
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
import { linear, noGradient, type OpEntry, pointwise, type SimpleEntries } from '../op-entry.ts';
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
    op: 'neg',
    infer: one(numbers),
    gradient: (_, gy) => [neg(gy)],
  },
  abs: {
    ...pointwise,
    op: 'abs',
    infer: one(numbers),
    gradient: (_, gy, _y, x) => [mul(gy, sign(x))],
  },
  sign: {
    ...pointwise,
    op: 'sign',
    infer: one(numbers),
    gradient: zeroGradient,
  },
  exp: {
    ...pointwise,
    op: 'exp',
    infer: one(floats),
    gradient: (_, gy, y) => [mul(gy, y)],
  },
  log: {
    ...pointwise,
    op: 'log',
    infer: one(floats),
    gradient: (_, gy, _y, x) => [div(gy, x)],
  },
  sqrt: {
    ...pointwise,
    op: 'sqrt',
    infer: one(floats),
    gradient: (_, gy, y) => [div(scale(gy, 0.5), y)],
  },
  sin: {
    ...pointwise,
    op: 'sin',
    infer: one(floats),
    gradient: (_, gy, _y, x) => [mul(gy, cos(x))],
  },
  cos: {
    ...pointwise,
    op: 'cos',
    infer: one(floats),
    gradient: (_, gy, _y, x) => [neg(mul(gy, sin(x)))],
  },
  atan: {
    ...pointwise,
    op: 'atan',
    infer: one(floats),
    gradient: (_, gy, _y, x) => [div(gy, offset(square(x), 1))],
  },
  tanh: {
    ...pointwise,
    op: 'tanh',
    infer: one(floats),
    gradient: (_, gy, y) => [mul(gy, sub(constantLike(y, 1), square(y)))],
  },
  erf: {
    ...pointwise,
    op: 'erf',
    infer: one(floats),
    gradient: (_, gy, _y, x) => [mul(gy, scale(exp(neg(square(x))), 2 / Math.sqrt(Math.PI)))],
  },
  floor: {
    ...pointwise,
    op: 'floor',
    infer: one(floats),
    gradient: zeroGradient,
  },
  ceil: {
    ...pointwise,
    op: 'ceil',
    infer: one(floats),
    gradient: zeroGradient,
  },
  logicalNot: {
    ...pointwise,
    op: 'logicalNot',
    infer: one(bools),
    gradient: noGradient,
  },
  add: {
    ...linear,
    op: 'add',
    infer: pair(numbers),
    gradient: (_, gy) => [gy, gy],
  },
  sub: {
    ...linear,
    op: 'sub',
    infer: pair(numbers),
    gradient: (_, gy) => [gy, neg(gy)],
  },
  mul: {
    ...pointwise,
    op: 'mul',
    linearIn: [[0], [1]],
    infer: pair(numbers),
    gradient: (_, gy, _y, a, b) => [mul(gy, b), mul(gy, a)],
  },
  div: {
    ...pointwise,
    op: 'div',
    linearIn: [[0]],
    infer: pair(numbers),
    gradient: (_, gy, y, _a, b) => [div(gy, b), neg(mul(gy, div(y, b)))],
  },
  pow: {
    ...pointwise,
    op: 'pow',
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
    op: 'maximum',
    infer: pair(numbers),
    gradient: (_, gy, _y, a, b) => chosenGradient(gy, less(a, b), less(b, a), equal(a, b)),
  },
  minimum: {
    ...pointwise,
    op: 'minimum',
    infer: pair(numbers),
    gradient: (_, gy, _y, a, b) => chosenGradient(gy, less(b, a), less(a, b), equal(a, b)),
  },
  fmod: {
    ...pointwise,
    op: 'fmod',
    infer: pair(floats),
    gradient: (_, gy, _y, a, b) => [gy, neg(mul(gy, truncate(div(a, b))))],
  },
  equal: { ...pointwise, op: 'equal', infer: compare, gradient: noGradient },
  less: { ...pointwise, op: 'less', infer: compare, gradient: noGradient },
  lessEqual: { ...pointwise, op: 'lessEqual', infer: compare, gradient: noGradient },
  logicalAnd: { ...pointwise, op: 'logicalAnd', infer: pair(bools), gradient: noGradient },
  logicalOr: { ...pointwise, op: 'logicalOr', infer: pair(bools), gradient: noGradient },
  where: {
    ...pointwise,
    op: 'where',
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
  <K extends UnaryOp>(entry: OpEntry<K>) =>
  (x: Node): Node =>
    createNode(entry, none, [x]);

const binary =
  <K extends BinaryOp>(entry: OpEntry<K>) =>
  (a: Node, b: Node): Node => {
    if (sameShape(a.shape, b.shape)) return createNode(entry, none, [a, b]);
    const shape = broadcastShapes(entry.op, a.shape, b.shape);
    return createNode(entry, none, [expandTo(a, shape, b), expandTo(b, shape, a)]);
  };

type Unary = (x: Node) => Node;
/** Inputs broadcast. Shape: N, N' -> broadcast(N, N'). */
type Binary = (a: Node, b: Node) => Node;

export const neg: Unary = unary(elementwiseOps.neg);
export const abs: Unary = unary(elementwiseOps.abs);
export const sign: Unary = unary(elementwiseOps.sign);
export const exp: Unary = unary(elementwiseOps.exp);
export const log: Unary = unary(elementwiseOps.log);
export const sqrt: Unary = unary(elementwiseOps.sqrt);
export const sin: Unary = unary(elementwiseOps.sin);
export const cos: Unary = unary(elementwiseOps.cos);
export const atan: Unary = unary(elementwiseOps.atan);
export const tanh: Unary = unary(elementwiseOps.tanh);
export const erf: Unary = unary(elementwiseOps.erf);
export const floor: Unary = unary(elementwiseOps.floor);
export const ceil: Unary = unary(elementwiseOps.ceil);
export const logicalNot: Unary = unary(elementwiseOps.logicalNot);

/** Shape: N, N -> N. */
export const add: Binary = binary(elementwiseOps.add);
export const sub: Binary = binary(elementwiseOps.sub);
/** The product of elements. Shape: N, N -> N. */
export const mul: Binary = binary(elementwiseOps.mul);
export const div: Binary = binary(elementwiseOps.div);
export const pow: Binary = binary(elementwiseOps.pow);
export const maximum: Binary = binary(elementwiseOps.maximum);
export const minimum: Binary = binary(elementwiseOps.minimum);
export const fmod: Binary = binary(elementwiseOps.fmod);
export const equal: Binary = binary(elementwiseOps.equal);
export const less: Binary = binary(elementwiseOps.less);
export const lessEqual: Binary = binary(elementwiseOps.lessEqual);
export const logicalAnd: Binary = binary(elementwiseOps.logicalAnd);
export const logicalOr: Binary = binary(elementwiseOps.logicalOr);

export function cast(x: Node, dtype: DType): Node {
  return x.dtype === dtype ? x : createNode(castEntry, { dtype }, [x]);
}

/** All three inputs broadcast. */
export function where(condition: Node, a: Node, b: Node): Node {
  const shape: Shape = broadcastShapes(
    'where',
    broadcastShapes('where', condition.shape, a.shape),
    b.shape,
  );
  const like = [condition, a, b].find(({ rowCount }) => rowCount !== null) ?? null;
  return createNode(elementwiseOps.where, none, [
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
  return createNode(elementwiseOps.mul, none, [x, x]);
}
