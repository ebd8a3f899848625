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
} from '../graph/build/elementwise.ts';
import { constantLike } from '../graph/build/leaf.ts';
import type { Node } from '../graph/node.ts';

/**
 * The largest whole number that is not above the exact quotient of two floats, as Python's `//`:
 * 1 / 0.1 is 9, since the float 0.1 is a little larger than the fraction. Of infinities it is the floor of the
 * rounded quotient. Shape: a N, b N -> N.
 */
export function floorQuotient(a: Node, b: Node): Node {
  const whole = floor(div(a, b));
  // The rounded quotient may be a whole number that the exact one does not reach: then whole * b lies
  // beyond a, as seen from 0.
  const product = mul(whole, b);
  const excess = add(sub(product, a), productError(whole, b, product));
  const isBeyond = less(constantLike(b, 0), mul(sign(excess), sign(b)));
  return where(isBeyond, offset(whole, -1), whole);
}

/**
 * What rounding took from a product (Dekker 1971, "A floating-point technique for extending the available
 * precision").
 */
function productError(a: Node, b: Node, product: Node): Node {
  const [aHigh, bHigh] = [highHalf(a), highHalf(b)];
  const [aLow, bLow] = [sub(a, aHigh), sub(b, bHigh)];
  const high = sub(mul(aHigh, bHigh), product);
  return add(add(add(high, mul(aHigh, bLow)), mul(aLow, bHigh)), mul(aLow, bLow));
}

/** The upper half of the digits: products of such halves are exact. */
function highHalf(x: Node): Node {
  const shifted = scale(x, x.dtype === 'f64' ? 2 ** 27 + 1 : 2 ** 12 + 1);
  return sub(shifted, sub(shifted, x));
}
