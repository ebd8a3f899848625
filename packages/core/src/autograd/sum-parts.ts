import { type AxisTypes, uniform, unset } from '../graph/axis-types.ts';
import { createNode } from '../graph/create-node.ts';
import { isOp, none, type Node } from '../graph/node.ts';

/** Where a piece lies in the whole: from `start` of `dim`, and zeros elsewhere. */
interface Piece {
  readonly dim: number;
  readonly start: number;
  readonly content: Node;
}

/**
 * The sum of what the uses of a value owe it. The gradients of slices that tile the value (queries,
 * keys and values cut from one product) are one concatenation instead of pads and additions over
 * the whole.
 */
export function sumParts(parts: readonly [Node, ...Node[]]): Node {
  const [first, ...rest] = parts;
  return rest.length === 0 ? first : (tile(first, parts) ?? rest.reduce(addParts, first));
}

/** The sum of two gradients of one value. Shape: N, N -> N. */
export function addParts(a: Node, b: Node): Node {
  return createNode('add', none, [a, b], typesOfSum([a, b]));
}

/** Whatever the types of the parts, each is a term of what is owed to the value. */
function typesOfSum(parts: readonly Node[]): AxisTypes | null {
  const [like = null] = parts.map(({ axisTypes }) => axisTypes);
  if (parts.every(({ axisTypes }) => axisTypes === like)) return like;
  const mixes = parts.map(({ axisTypes }) => (axisTypes ?? unset).mixed(false));
  const { sum } = mixes.reduce((all, mix) => all.with(mix), uniform.mixed(false));
  return sum === unset ? null : sum;
}

function tile(like: Node, parts: readonly Node[]): Node | undefined {
  const pieces = parts.map(pieceOf);
  const dim = pieces[0]?.dim;
  if (dim === undefined) return undefined;
  const contents: Node[] = [];
  let end = 0;
  for (const piece of pieces.toSorted((a, b) => (a?.start ?? 0) - (b?.start ?? 0))) {
    if (piece === undefined || piece.dim !== dim || piece.start !== end) return undefined;
    contents.push(piece.content);
    end += piece.content.shape[dim] ?? 0;
  }
  if (end !== like.shape[dim]) return undefined;
  return createNode('concat', { dim }, contents, typesOfSum(contents));
}

/** Undefined where the node is not a piece between zeros along one dim. */
function pieceOf(node: Node): Piece | undefined {
  const [content] = node.inputs;
  if (!isOp(node, 'pad') || node.params.value !== 0 || content === undefined) return undefined;
  const { before, after } = node.params;
  const padded = before.flatMap((size, dim) => (size > 0 || (after[dim] ?? 0) > 0 ? [dim] : []));
  const [dim] = padded;
  if (dim === undefined || padded.length > 1) return undefined;
  return { dim, start: before[dim] ?? 0, content };
}
