import { createNode } from '../create-node.ts';
import { binary, floats, unary } from '../infer-checks.ts';
import { none, type Node } from '../node.ts';
import { composite, type CompositeEntries } from '../op-entry.ts';
import {
  abs,
  add,
  div,
  equal,
  erf,
  exp,
  less,
  lessEqual,
  log,
  logicalOr,
  maximum,
  minimum,
  mul,
  neg,
  offset,
  scale,
  square,
  sub,
  tanh,
  where,
} from './elementwise.ts';
import { constantLike, zerosLike } from './leaf.ts';

/** Functions of one element that are made of others. Shape: N -> N. */
export const activationOps: CompositeEntries<
  'sigmoid' | 'relu' | 'silu' | 'softplus' | 'logit' | 'gelu' | 'geluGrad'
> = {
  sigmoid: {
    ...composite,
    infer: unary(floats),
    decompose: (_, x) => div(constantLike(x, 1), offset(exp(neg(x)), 1)),
    gradient: (_, gy, y) => [mul(gy, mul(y, sub(constantLike(y, 1), y)))],
  },
  relu: {
    ...composite,
    infer: unary(floats),
    decompose: (_, x) => maximum(x, zerosLike(x)),
    gradient: (_, gy, _y, x) => [where(lessEqual(x, zerosLike(x)), zerosLike(gy), gy)],
  },
  silu: {
    ...composite,
    infer: unary(floats),
    decompose: (_, x) => mul(x, sigmoid(x)),
    gradient: (_, gy, _y, x) => {
      const s = sigmoid(x);
      return [mul(gy, mul(s, offset(mul(x, sub(constantLike(s, 1), s)), 1)))];
    },
  },
  softplus: {
    ...composite,
    infer: unary(floats),
    decompose: (_, x) => add(maximum(x, zerosLike(x)), log1p(exp(neg(abs(x))))),
    gradient: (_, gy, _y, x) => [mul(gy, sigmoid(x))],
  },
  logit: {
    ...composite,
    infer: unary(floats),
    decompose: ({ eps }, x) => {
      const inside = eps === null ? x : limited(x, eps, 1 - eps);
      return log(div(inside, sub(constantLike(x, 1), inside)));
    },
    // As in PyTorch, outside of the limits it is 0 with eps, and NaN without.
    gradient: ({ params: { eps } }, gy, _, x) => {
      const low = eps ?? 0;
      const isOutside = logicalOr(less(x, constantLike(x, low)), less(constantLike(x, 1 - low), x));
      // Inside of them, x (1 - x) has the sign + also at -0.
      const slope = div(gy, abs(mul(x, sub(constantLike(x, 1), x))));
      return [where(isOutside, constantLike(slope, eps === null ? Number.NaN : 0), slope)];
    },
  },
  gelu: {
    ...composite,
    infer: unary(floats),
    decompose: ({ approximate }, x) => {
      if (approximate === 'none') return mul(x, normalCdf(x));
      return mul(scale(x, 0.5), offset(geluTanhInner(x), 1));
    },
    gradient: ({ params }, gy, _, x) => [
      createNode(activationOps.geluGrad, 'geluGrad', params, [x, gy]),
    ],
  },
  geluGrad: {
    ...composite,
    linearIn: [[1]],
    infer: binary(floats),
    decompose: ({ approximate }, x, dy) => {
      if (approximate === 'none') {
        const density = scale(exp(scale(square(x), -0.5)), 1 / Math.sqrt(2 * Math.PI));
        return mul(dy, add(normalCdf(x), mul(x, density)));
      }
      const t = geluTanhInner(x);
      const slope = scale(offset(scale(square(x), 3 * TANH_CUBIC), 1), tanhScale);
      const inner = mul(mul(scale(x, 0.5), sub(constantLike(t, 1), square(t))), slope);
      return mul(dy, add(scale(offset(t, 1), 0.5), inner));
    },
    gradient: 'throughDecomposition',
  },
};

const tanhScale = Math.sqrt(2 / Math.PI);
const TANH_CUBIC = 0.044715;

function limited(x: Node, low: number, high: number): Node {
  return minimum(maximum(x, constantLike(x, low)), constantLike(x, high));
}

function normalCdf(x: Node): Node {
  return scale(offset(erf(scale(x, Math.SQRT1_2)), 1), 0.5);
}

function geluTanhInner(x: Node): Node {
  return tanh(scale(add(x, scale(mul(square(x), x), TANH_CUBIC)), tanhScale));
}

/**
 * log(1 + x) for x >= 0. The sum 1 + x loses digits of x, and the factor x / ((1 + x) - 1) corrects for the loss
 * (Higham 2002, "Accuracy and stability of numerical algorithms", section 1.14.1).
 */
function log1p(x: Node): Node {
  const rounded = offset(x, 1);
  const one = constantLike(x, 1);
  const ratio = div(x, sub(rounded, one));
  return where(equal(rounded, one), x, mul(log(rounded), ratio));
}

export function sigmoid(x: Node): Node {
  return createNode(activationOps.sigmoid, 'sigmoid', none, [x]);
}

export function relu(x: Node): Node {
  return createNode(activationOps.relu, 'relu', none, [x]);
}

export function silu(x: Node): Node {
  return createNode(activationOps.silu, 'silu', none, [x]);
}

export function softplus(x: Node): Node {
  return createNode(activationOps.softplus, 'softplus', none, [x]);
}

export function logit(x: Node, eps: number | null): Node {
  return createNode(activationOps.logit, 'logit', { eps }, [x]);
}

export function gelu(x: Node, approximate: 'none' | 'tanh'): Node {
  return createNode(activationOps.gelu, 'gelu', { approximate }, [x]);
}
