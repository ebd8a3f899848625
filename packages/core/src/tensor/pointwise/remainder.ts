import { kindOf } from '../../base/dtype-kind.ts';
import {
  add,
  div,
  fmod as exactRest,
  less,
  logicalAnd,
  logicalOr,
  mul,
  neg,
  sub,
  where,
} from '../../graph/ops/elementwise.ts';
import { constantLike } from '../../graph/ops/leaf.ts';
import type { Node } from '../../graph/node.ts';
import { floorQuotient } from '../floor-quotient.ts';
import { inSteps, type NodeOrNumber } from '../arithmetic.ts';
import { withOwnGradient } from '../own-gradient.ts';

// These functions return remainders of divisions. Operands broadcast and are promoted. Shape: N, N' -> broadcast(N,
// N').

/** The exact remainder with the sign of the dividend, like `%` of JavaScript. */
export function fmod(a: Node, b: NodeOrNumber): Node {
  return inSteps('fmod', a, b, (x, y) =>
    kindOf(x.dtype) === 'int' ? sub(x, mul(div(x, y), y)) : exactRest(x, y),
  );
}

/** The remainder with the sign of the divisor, like `%` of Python. */
export function remainder(a: Node, b: NodeOrNumber): Node {
  return inSteps('remainder', a, b, (x, y) => {
    if (kindOf(x.dtype) === 'int') return withSignOf(sub(x, mul(div(x, y), y)), y);
    return withOwnGradient(
      [x, y],
      () => withSignOf(exactRest(x, y), y),
      (gradient, [over = x, under = y]) => [
        gradient,
        neg(mul(gradient, floorQuotient(over, under))),
      ],
    );
  });
}

function withSignOf(rest: Node, divisor: Node): Node {
  const zero = constantLike(rest, 0);
  const isAbove = logicalAnd(less(divisor, zero), less(zero, rest));
  const isBelow = logicalAnd(less(rest, zero), less(zero, divisor));
  return where(logicalOr(isAbove, isBelow), add(rest, divisor), rest);
}
