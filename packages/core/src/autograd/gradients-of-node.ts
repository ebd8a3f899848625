import { asGradientOf } from '../graph/collective-identity.ts';
import type { Node } from '../graph/node.ts';
import { cast } from '../graph/ops/elementwise.ts';
import { decompose, isCompositeOp, ops } from '../graph/ops/ops.ts';
import type { Op } from '../spec/op.ts';
import { walkBackward } from './walk.ts';

/** The gradients of a node's inputs, in the inputs' dtypes. They read `output` in the place of the node's value. */
export function gradientsOfNode(
  node: Node,
  gradient: Node,
  output: Node = node,
): readonly (Node | null)[] {
  const { identity, inputs } = node;
  const rule = (): readonly (Node | null)[] => applyRule(node, gradient, output);
  const gradients = identity === null ? rule() : asGradientOf(identity, rule);
  // Ops that take inputs of several float dtypes, such as norms, make gradients in the dtype of their result.
  return gradients.map((part, index) => part && cast(part, inputs[index]?.dtype ?? part.dtype));
}

function applyRule<K extends Op>(
  node: Node<K>,
  gradient: Node,
  output: Node,
): readonly (Node | null)[] {
  const { gradient: rule } = ops[node.op];
  const own = rule === 'throughDecomposition' ? null : rule(node, gradient, output, ...node.inputs);
  return own ?? throughDecomposition(node, gradient);
}

/** Differentiates a composite through its decomposition. Second derivatives need this. */
function throughDecomposition(node: Node, gradient: Node): readonly (Node | null)[] {
  const stops = new Set(node.inputs);
  const results = new Map<Node, Node | null>();
  const reaches = new Map<Node, boolean>();
  const needs = (x: Node): boolean => {
    const known = reaches.get(x);
    if (known !== undefined) return known;
    const result = stops.has(x) || x.inputs.some(needs);
    reaches.set(x, result);
    return result;
  };
  const output = decomposed(node);
  walkBackward([{ output, gradient }], {
    needs,
    isLeaf: (x) => stops.has(x),
    gradientsOf: gradientsOfNode,
    onLeaf: (leaf, result) => results.set(leaf, result),
  });
  // If an input occurs twice, its first occurrence gets the whole gradient.
  return node.inputs.map((input, index) =>
    node.inputs.indexOf(input) === index ? (results.get(input) ?? null) : null,
  );
}

function decomposed<K extends Op>({ op, params, inputs }: Node<K>): Node {
  if (!isCompositeOp(op)) throw new TypeError(`${op} is not made of others`);
  return decompose(op, params, inputs);
}
