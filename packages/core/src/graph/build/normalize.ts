import { createNode } from '../create-node.ts';
import { none, type Node } from '../node.ts';

/** Runs over the last dim. Shape: [.., D] -> [.., D]. */
export function softmax(x: Node): Node {
  return createNode('softmax', none, [x]);
}

/** The gradient of softmax, from its result y. Shape: y [.., D], dy [.., D] -> [.., D]. */
export function softmaxGrad(y: Node, dy: Node): Node {
  return createNode('softmaxGrad', none, [y, dy]);
}

/** Runs over the last dim. Shape: [.., D] -> [.., D]. */
export function logSoftmax(x: Node): Node {
  return createNode('logSoftmax', none, [x]);
}

/** Takes the biased variance of the last dim (Ba et al. 2016). Shape: x [.., D], weight [D], bias [D] -> [.., D]. */
export function layerNorm(x: Node, weight: Node, bias: Node, eps: number): Node {
  return createNode('layerNorm', { eps }, [x, weight, bias]);
}

/** Runs over the last dim (Zhang and Sennrich 2019). Shape: x [.., D], weight [D] -> [.., D]. */
export function rmsNorm(x: Node, weight: Node, eps: number): Node {
  return createNode('rmsNorm', { eps }, [x, weight]);
}
