import { createNode, isGradEnabled, noGrad } from '../graph/create-node.ts';
import { type Node, none, type OwnGradient } from '../graph/node.ts';

/**
 * What `value` computes of `inputs`, with a gradient of its own: for what is not differentiable step by step, or only
 * with NaN or fewer digits. `gradient` reads the inputs and the output that it is given, which backward may have made
 * again; what it builds of them is differentiable in turn. Shape: -> that of the value.
 */
export function withOwnGradient(
  inputs: readonly Node[],
  value: () => Node,
  gradient: OwnGradient,
): Node {
  if (!isGradEnabled() || !inputs.some(({ requiresGrad }) => requiresGrad)) return value();
  const node = createNode('ownGradient', none, [noGrad(value), ...inputs]);
  node.ownGradient = gradient;
  return node;
}

/** Of an elementwise op of one input, whose gradient is `slope` times that of the output. Shape: N -> N. */
export function withSlope(
  x: Node,
  value: (x: Node) => Node,
  slope: (gradient: Node, x: Node, y: Node) => Node,
): Node {
  return withOwnGradient(
    [x],
    () => value(x),
    (gradient, [input = x], y) => [slope(gradient, input, y)],
  );
}
