import { add } from '../graph/build/elementwise.ts';
import { concat } from '../graph/build/movement.ts';
import { isOp, type Node } from '../graph/node.ts';

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
  return rest.length === 0 ? first : (tile(first, parts) ?? rest.reduce(add, first));
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
  return end === like.shape[dim] ? concat(contents, dim) : undefined;
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
