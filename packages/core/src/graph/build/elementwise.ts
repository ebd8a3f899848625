import { computeDType } from '../../base/dtype-kind.ts';
import { broadcastShapes, sameShape } from '../../base/shape.ts';
import type { DType, Shape } from '../../spec/dtype.ts';
import { createNode } from '../create-node.ts';
import { none, type Node } from '../node.ts';
import { constantLike } from './leaf.ts';
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
  | 'logicalNot'
  | 'sigmoid'
  | 'relu'
  | 'silu'
  | 'softplus';
export type BinaryOp =
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

const unary =
  (op: UnaryOp) =>
  (x: Node): Node =>
    createNode(op, none, [x]);

const binary =
  (op: BinaryOp) =>
  (a: Node, b: Node): Node => {
    if (sameShape(a.shape, b.shape)) return createNode(op, none, [a, b]);
    const shape = broadcastShapes(op, a.shape, b.shape);
    return createNode(op, none, [expandTo(a, shape, b), expandTo(b, shape, a)]);
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
export const sigmoid: Unary = unary('sigmoid');
export const relu: Unary = unary('relu');
export const silu: Unary = unary('silu');
export const softplus: Unary = unary('softplus');

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
  return x.dtype === dtype ? x : createNode('cast', { dtype }, [x]);
}

/** All three inputs broadcast. */
export function where(condition: Node, a: Node, b: Node): Node {
  const shape: Shape = broadcastShapes(
    'where',
    broadcastShapes('where', condition.shape, a.shape),
    b.shape,
  );
  const like = [condition, a, b].find(({ rowCount }) => rowCount !== null) ?? null;
  return createNode('where', none, [
    expandTo(condition, shape, like),
    expandTo(a, shape, like),
    expandTo(b, shape, like),
  ]);
}

/**
 * An op of x and a number known when the graph is built. If x has fewer bits than the dtype that is computed with, the
 * number is not rounded to the dtype of x.
 */
export function withNumber(op: BinaryOp, x: Node, value: number): Node {
  const wide = cast(x, computeDType(x.dtype));
  return cast(createNode(op, none, [wide, constantLike(wide, value)]), x.dtype);
}

/** x times a number known when the graph is built. */
export function scale(x: Node, factor: number): Node {
  return withNumber('mul', x, factor);
}

/** x plus a number known when the graph is built. */
export function offset(x: Node, amount: number): Node {
  return withNumber('add', x, amount);
}

/** Rounds towards zero. */
export function truncate(x: Node): Node {
  return where(less(x, constantLike(x, 0)), ceil(x), floor(x));
}

export function square(x: Node): Node {
  return createNode('mul', none, [x, x]);
}

export function gelu(x: Node, approximate: 'none' | 'tanh'): Node {
  return createNode('gelu', { approximate }, [x]);
}
