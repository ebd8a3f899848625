import { type AxisTypes, uniform, unset } from '../graph/axis-types.ts';
import { createNode } from '../graph/create-node.ts';
import { elementwiseOps } from '../graph/ops/elementwise.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import { expandTo, movementOps } from '../graph/ops/movement.ts';
import { isOp, none, type Node } from '../graph/node.ts';

/** A value that lies from `start` on along `dim` of a larger one, which has zeros elsewhere. */
interface Piece {
  readonly dim: number;
  readonly start: number;
  readonly content: Node;
}

/**
 * The sum of the gradients that the uses of a value give it. If the uses are slices that tile the value, such as
 * queries, keys and values in one product, the sum is one concatenation instead of pads and additions of the size of
 * the value.
 */
export function sumParts(parts: readonly [Node, ...Node[]]): Node {
  return tile(parts) ?? parts.reduce(addParts);
}

/**
 * Adds a gradient to those that a value already has. Gradients are summed as they come, so that a value with many uses, such as a
 * weight of a loop, does not keep the gradients of all of them. Pieces wait for the others, with which they may tile the value.
 */
export function addPart(parts: [Node, ...Node[]], part: Node): void {
  if ((pieceOf(parts[0]) ?? pieceOf(part)) === undefined) parts[0] = addParts(parts[0], part);
  else parts.push(part);
}

/** The sum of two gradients of one value. Shape: N, N -> N. */
export function addParts(a: Node, b: Node): Node {
  return createNode(elementwiseOps.add, 'add', none, [a, b], typesOfSum([a, b]));
}

/**
 * A gradient where the condition is true, and zeros elsewhere, whatever the gradient is there: NaN, too. The result has
 * the axis types of the gradient, because zeros are a term of any sum. Shape: condition bool [], N -> N.
 */
export function partWhere(condition: Node, gradient: Node): Node {
  const everywhere = expandTo(condition, gradient.shape, gradient);
  const inputs = [everywhere, gradient, constantLike(gradient, 0)];
  return createNode(elementwiseOps.where, 'where', none, inputs, gradient.axisTypes);
}

/** The axis types of a sum of gradients. Whatever types the parts have, each is a term of the value's gradient. */
function typesOfSum(parts: readonly Node[]): AxisTypes | null {
  const [like = null] = parts.map(({ axisTypes }) => axisTypes);
  if (parts.every(({ axisTypes }) => axisTypes === like)) return like;
  const mixes = parts.map(({ axisTypes }) => (axisTypes ?? unset).mixed(false));
  const { sum } = mixes.reduce((all, mix) => all.with(mix), uniform.mixed(false));
  return sum === unset ? null : sum;
}

function tile(parts: readonly [Node, ...Node[]]): Node | undefined {
  const pieces = parts.map(pieceOf);
  const dim = pieces[0]?.dim;
  if (dim === undefined) return undefined;
  const contents: Node[] = [];
  let end = 0;
  for (const piece of pieces.toSorted((a, b) => (a?.start ?? 0) - (b?.start ?? 0))) {
    if (piece?.dim !== dim || piece.start !== end) return undefined;
    contents.push(piece.content);
    end += piece.content.shape[dim] ?? 0;
  }
  if (end !== parts[0].shape[dim]) return undefined;
  return createNode(movementOps.concat, 'concat', { dim }, contents, typesOfSum(contents));
}

/** The piece of a node that pads it with zeros along one dim. Undefined for other nodes. */
function pieceOf(node: Node): Piece | undefined {
  const [content] = node.inputs;
  if (!isOp(node, 'pad') || node.params.value !== 0 || content === undefined) return undefined;
  const { before, after } = node.params;
  const [dim, ...more] = before.flatMap((size, at) => (size + (after[at] ?? 0) > 0 ? [at] : []));
  if (dim === undefined || more.length > 0) return undefined;
  return { dim, start: before[dim] ?? 0, content };
}
