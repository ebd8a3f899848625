import {
  add,
  div,
  floor,
  less,
  mul,
  offset,
  scale,
  sign,
  sub,
  where,
} from '../graph/ops/elementwise.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import type { Node } from '../graph/node.ts';

/**
 * The largest whole number that is not above the exact quotient of two floats, like Python's `//`. For 1 and 0.1 it
 * is 9, since the float 0.1 is a little larger than the fraction. For infinities it is the floor of the rounded
 * quotient. Shape: a N, b N -> N.
 */
export function floorQuotient(a: Node, b: Node): Node {
  const whole = floor(div(a, b));
  // Rounding may have raised the quotient to a whole number that the exact quotient does not reach. Then whole * b is
  // farther from 0 than a.
  const product = mul(whole, b);
  const excess = add(sub(product, a), productError(whole, b, product));
  const isBeyond = less(constantLike(b, 0), mul(sign(excess), sign(b)));
  return where(isBeyond, offset(whole, -1), whole);
}

/**
 * The exact product minus the rounded one (Dekker 1971, "A floating-point technique for extending the available
 * precision").
 */
function productError(a: Node, b: Node, product: Node): Node {
  const [aHigh, bHigh] = [highHalf(a), highHalf(b)];
  const [aLow, bLow] = [sub(a, aHigh), sub(b, bHigh)];
  const high = sub(mul(aHigh, bHigh), product);
  return add(add(add(high, mul(aHigh, bLow)), mul(aLow, bHigh)), mul(aLow, bLow));
}

/** Keeps the upper half of the digits of a float. The product of two such halves is exact. */
function highHalf(x: Node): Node {
  const shifted = scale(x, x.dtype === 'f64' ? 2 ** 27 + 1 : 2 ** 12 + 1);
  return sub(shifted, sub(shifted, x));
}
