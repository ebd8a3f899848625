import { ownGradient } from '../graph/ops/graph-ops.ts';
import { isGradEnabled, noGrad } from '../graph/create-node.ts';
import type { Node, OwnGradient } from '../graph/node.ts';

/**
 * Computes `value`, and gives it its own gradient. This is for computations that are not differentiable op by op, or
 * only with NaN or a loss of digits. `gradient` must read the inputs and the output from its arguments, because
 * backward may have recomputed them. The nodes that it builds are differentiable in turn. Shape: -> that of the value.
 */
export function withOwnGradient(
  inputs: readonly Node[],
  value: () => Node,
  gradient: OwnGradient,
): Node {
  if (!isGradEnabled() || !inputs.some(({ requiresGrad }) => requiresGrad)) return value();
  const node = ownGradient(noGrad(value), inputs);
  if (node.distributed === null) node.ownGradient = gradient;
  else node.distributed.useOwnGradient(gradient, inputs);
  return node;
}

/**
 * Gives an elementwise op of one input its own gradient. `slope` returns the gradient of the input. Its arguments are
 * the gradient of the output, the input and the output. Shape: N -> N.
 */
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
