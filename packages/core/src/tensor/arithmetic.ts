import { computeDType, kindOf } from '../base/dtype-kind.ts';
import {
  add,
  cast,
  div,
  equal,
  less,
  lessEqual,
  logicalAnd,
  logicalOr,
  maximum,
  minimum,
  mul,
  pow,
  sign,
  sqrt,
  sub,
  truncate,
  where as select,
} from '../graph/ops/elementwise.ts';
import { constant, constantLike } from '../graph/ops/leaf.ts';
import { expandTo } from '../graph/ops/movement.ts';
import { detach } from '../graph/ops/graph-ops.ts';
import { noGrad } from '../graph/create-node.ts';
import type { Node } from '../graph/node.ts';
import { article } from '../graph/infer-checks.ts';
import { broadcastShapes } from '../base/shape.ts';
import type { DType } from '../spec/dtype.ts';
import { ConfigError, DTypeError } from '../spec/errors.ts';
import { floorQuotient } from './floor-quotient.ts';
import { resultDType } from './promotion.ts';

/** A node, or a number. A number has no dtype of its own: promotion chooses it. */
export type NodeOrNumber = Node | number;

/** How the quotient of a division is rounded to a whole number. */
export type RoundingMode = 'trunc' | 'floor';

type Binary = (a: Node, b: Node) => Node;

export type ArithmeticOp = 'add' | 'sub' | 'mul' | 'pow' | 'maximum' | 'minimum';

/** Ops whose operands are promoted to one dtype, which the result has too. `bools` is null if bools are an error. */
const arithmetic: Readonly<
  Record<ArithmeticOp, { readonly numbers: Binary; readonly bools: Binary | null }>
> = {
  add: { numbers: add, bools: logicalOr },
  sub: { numbers: sub, bools: null },
  mul: { numbers: mul, bools: logicalAnd },
  pow: { numbers: pow, bools: null },
  maximum: { numbers: maximum, bools: logicalOr },
  minimum: { numbers: minimum, bools: logicalAnd },
};

/**
 * Applies an op with the dtype promotion of PyTorch. Throws DTypeError for dtypes that the op does not take.
 * Shape: N, N' -> broadcast(N, N').
 */
export function combine(op: ArithmeticOp, a: Node, b: NodeOrNumber): Node {
  const { numbers, bools } = arithmetic[op];
  const dtype = resultDType([a, b]);
  if (op === 'sub' && [a, b].some((x) => typeof x !== 'number' && x.dtype === 'bool')) {
    throw noBools(op, "Use logicalNot() for the opposite of a mask, or .to('i32') to count");
  }
  if (dtype === 'bool' && bools === null) throw noBools(op, "Convert one with .to('i32')");
  if (op === 'pow') checkPower(dtype, b);
  // A bound that u8 does not hold would wrap around in the elements that are replaced by it, so it is an error.
  // Sums and products wrap around, as in PyTorch.
  if (dtype === 'u8' && typeof b === 'number') {
    if ((op === 'maximum' && b > 255) || (op === 'minimum' && b < 0)) operand(op, b, dtype, null);
  }
  return operate(op, dtype === 'bool' && bools !== null ? bools : numbers, dtype, a, b);
}

const comparisons: Readonly<Record<'equal' | 'less' | 'lessEqual', Binary>> = {
  equal,
  less,
  lessEqual,
};

/** Compares operands after their promotion to one dtype. Shape: N, N' -> bool broadcast(N, N'). */
export function compare(op: keyof typeof comparisons, a: NodeOrNumber, b: NodeOrNumber): Node {
  const dtype = resultDType([a, b]);
  const wide = dtype === 'bool' || dtype === 'u8' ? 'i32' : dtype;
  const like = typeof a !== 'number' ? a : typeof b !== 'number' ? b : null;
  return comparisons[op](operand(op, a, wide, like), operand(op, b, wide, like));
}

/** Combines truth values. An element that is not 0 counts as true. Shape: N, N' -> bool broadcast(N, N'). */
export function logical(op: 'logicalAnd' | 'logicalOr', a: Node, b: Node): Node {
  const build = op === 'logicalAnd' ? logicalAnd : logicalOr;
  return build(cast(a, 'bool'), cast(b, 'bool'));
}

/** torch.where. Shape: condition bool N, a N', b N'' -> broadcast(N, N', N''). */
export function where(condition: Node, a: NodeOrNumber, b: NodeOrNumber): Node {
  const dtype = resultDType([a, b]);
  const branch = (x: NodeOrNumber): Node => operand('where', x, dtype, null);
  return select(condition, branch(a), branch(b));
}

/**
 * torch.div. The quotient of integers and bools is f32, unless a rounding mode is given. A rounded quotient has no
 * gradient. Shape: N, N' -> broadcast(N, N').
 */
export function divide(a: Node, b: NodeOrNumber, roundingMode?: RoundingMode): Node {
  const dtype = resultDType([a, b]);
  const isFloat = kindOf(dtype) === 'float';
  if (roundingMode === undefined) {
    return operate('div', div, isFloat ? dtype : 'f32', a, b);
  }
  if (dtype === 'bool')
    throw noBools(`div rounded by ${roundingMode}`, "Convert one with .to('i32')");
  if (b === 0 && !isFloat) throw zeroDivision('div', dtype);
  if (!isFloat) return operate('div', wholeQuotient[roundingMode], dtype, a, b);
  return noGrad(() =>
    roundingMode === 'trunc'
      ? operate('div', (x, y) => truncate(div(x, y)), dtype, a, b)
      : cast(operate('div', floorQuotient, computeDType(dtype), a, b), dtype),
  );
}

/** Limits elements to [low, high]. Null means no bound. The gradient is 1 also at the bounds. Shape: N -> N. */
export function clamp(x: Node, low: number | null, high: number | null): Node {
  const bounds = [low, high].filter((bound) => bound !== null);
  const wide = cast(x, resultDType([x, ...bounds]));
  const above = low === null ? detached(wide) : combine('maximum', detached(wide), low);
  const bounded = high === null ? above : combine('minimum', above, high);
  if (!wide.requiresGrad) return bounded;
  const isAbove = low === null ? null : compare('lessEqual', low, wide);
  const isBelow = high === null ? null : compare('lessEqual', wide, high);
  const isInside = isAbove && isBelow ? logicalAnd(isAbove, isBelow) : (isAbove ?? isBelow);
  return isInside === null ? wide : select(isInside, wide, bounded);
}

/**
 * Runs a computation of several ops on two operands. They are promoted, broadcast and computed with in at least 32
 * bits. With `kind` 'float', integers and bools become f32. Without it, throws DTypeError for bools, and ConfigError
 * for integers by the number 0. Shape: N, N' -> broadcast(N, N').
 */
export function inSteps(
  op: string,
  a: NodeOrNumber,
  b: NodeOrNumber,
  compute: Binary,
  kind?: 'float',
): Node {
  const promoted = resultDType([a, b]);
  const dtype = kind === 'float' && kindOf(promoted) !== 'float' ? 'f32' : promoted;
  if (dtype === 'bool') throw noBools(op, "Convert one with .to('i32')");
  if (b === 0 && kindOf(dtype) === 'int') throw zeroDivision(op, dtype);
  const wide = computeDType(dtype);
  const [x, y] = [a, b].map((each) => operand(op, each, wide, null));
  if (x === undefined || y === undefined) throw new RangeError(`${op} of two operands`);
  const shape = broadcastShapes(op, x.shape, y.shape);
  return cast(compute(expandTo(x, shape), expandTo(y, shape)), dtype);
}

/** Converts integers and bools to f32, for ops whose results are not whole numbers. */
export function asFloat(x: Node): Node {
  return kindOf(x.dtype) === 'float' ? x : cast(x, 'f32');
}

/** 1 / sqrt(x), rounded once. Shape: N -> N. */
export function inverseSqrt(x: Node): Node {
  const float = asFloat(x);
  const wide = cast(float, computeDType(float.dtype));
  return cast(div(constantLike(wide, 1), sqrt(wide)), float.dtype);
}

const wholeQuotient: Readonly<Record<RoundingMode, Binary>> = {
  trunc: div,
  floor: (a, b) => {
    const quotient = div(a, b);
    const rest = sub(a, mul(quotient, b));
    const zero = constantLike(rest, 0);
    const isOnOtherSide = less(mul(sign(rest), sign(b)), zero);
    return sub(quotient, cast(isOnOtherSide, rest.dtype));
  },
};

/** Computes an op on values of `dtype`. The result has this dtype, too. */
function operate(op: string, build: Binary, dtype: DType, a: Node, b: NodeOrNumber): Node {
  const first = cast(a, dtype);
  if (typeof b !== 'number') return build(first, cast(b, dtype));
  // A 16-bit dtype would round the number, so the op is computed in a wider one.
  const wide = cast(first, computeDType(dtype));
  return cast(build(wide, operand(op, b, wide.dtype, wide)), dtype);
}

/**
 * Converts an operand to `dtype`. A number becomes a constant with the shape of `like`, or a scalar. Throws DTypeError
 * for a number that i32 does not hold.
 */
function operand(op: string, x: NodeOrNumber, dtype: DType, like: Node | null): Node {
  if (typeof x !== 'number') return cast(x, dtype);
  if (dtype !== 'i32' || (x >= -(2 ** 31) && x < 2 ** 31))
    return constant(x, like?.shape ?? [], dtype, like);
  throw new DTypeError(
    {
      asked: `${op} of an i32 tensor and ${x}`,
      found: 'i32 ends at -2^31 and 2^31 - 1',
      todo: "Use a smaller number, or convert the tensor with .to('f32')",
    },
    { op, value: x },
  );
}

function detached(x: Node): Node {
  return x.requiresGrad ? detach(x) : x;
}

function noBools(op: string, todo: string): DTypeError {
  const asked = `${op} of a bool tensor`;
  return new DTypeError({ asked, found: 'a bool is not a number there', todo }, { op });
}

function checkPower(dtype: DType, exponent: NodeOrNumber): void {
  if (typeof exponent !== 'number' || exponent >= 0 || kindOf(dtype) === 'float') return;
  throw new DTypeError(
    {
      asked: `pow of ${article(dtype)} ${dtype} tensor by ${exponent}`,
      found: 'a fraction, which integers do not hold',
      todo: "Convert the tensor with .to('f32')",
    },
    { dtype, exponent },
  );
}

function zeroDivision(op: string, dtype: DType): ConfigError {
  return new ConfigError(
    {
      asked: `${op} of ${article(dtype)} ${dtype} tensor by 0${op === 'div' ? ', rounded to whole numbers' : ''}`,
      found: 'no quotient',
      todo: "Divide by another number, or convert the tensor with .to('f32')",
    },
    { dtype },
  );
}
