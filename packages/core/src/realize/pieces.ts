import type { Node } from '../graph/node.ts';
import { elementCount, sameShape } from '../shape.ts';
import { dtypes } from '../spec/dtype.ts';
import type { Subgraph } from './collect.ts';

/** A longer program is computed in pieces of about this many operations, where it falls into such. */
export const pieceOps = 2048;

/** As many operations as make a place in a program known again: more than a layer's. */
const likenessOps = 512;

/** What may pass from one piece to the next, so that a piece is an iteration or more of a loop. */
const crossingBytes = 64 * 1024;

/**
 * Cuts a long program where little passes from what is before to what is after: the iterations of a loop
 * that nobody has read yet. Pieces of a regular loop are alike, so that they run one plan. Returns the
 * roots of each piece, in the order of the program.
 */
export function piecesOf(
  { computed }: Subgraph,
  roots: readonly Node[],
): readonly (readonly Node[])[] {
  // What passes on has a size that is known.
  const isKnown = computed.every(({ rowCount }) => rowCount === null);
  if (computed.length <= 2 * pieceOps || !isKnown) return [roots];
  const boundaries = boundariesOf(computed, new Set(roots));
  const pieces: Node[][] = boundaries.map(({ crossing }) => [...crossing]);
  pieces.push([]);
  let piece = 0;
  for (const root of roots.toSorted((a, b) => a.id - b.id)) {
    while (piece < boundaries.length && root.id >= (boundaries[piece]?.id ?? 0)) piece++;
    pieces[piece]?.push(root);
  }
  return pieces.filter((each) => each.length > 0);
}

interface Boundary {
  /** Nodes from this id on come after it. */
  readonly id: number;
  /** Computed before it and read after it. */
  readonly crossing: readonly Node[];
}

function boundariesOf(computed: readonly Node[], roots: ReadonlySet<Node>): readonly Boundary[] {
  const lastReads = lastReadsOf(computed);
  const bytesAt = crossingBytesAt(computed, lastReads, roots);
  const boundaries: Boundary[] = [];
  let start = 0;
  while (computed.length - start > 2 * pieceOps) {
    const at = boundaryAfter(computed, start, bytesAt);
    const first = at === undefined ? undefined : computed[at];
    if (at === undefined || first === undefined) break;
    const crossing = computed.slice(start, at).filter((node, offset) => {
      return (lastReads[start + offset] ?? 0) >= at && !roots.has(node) && !isConstant(node);
    });
    boundaries.push({ id: first.id, crossing });
    start = at;
  }
  return boundaries;
}

function lastReadsOf(computed: readonly Node[]): Int32Array {
  const positions = new Map(computed.map((node, position) => [node, position]));
  const lastReads = new Int32Array(computed.length).fill(-1);
  for (const [position, { inputs }] of computed.entries()) {
    for (const input of inputs) {
      const made = positions.get(input);
      if (made !== undefined) lastReads[made] = position;
    }
  }
  return lastReads;
}

/** For each position the bytes that are computed before it and read at it or later. */
function crossingBytesAt(
  computed: readonly Node[],
  lastReads: Int32Array,
  roots: ReadonlySet<Node>,
): Float64Array {
  const changes = new Float64Array(computed.length + 1);
  for (const [position, node] of computed.entries()) {
    const last = lastReads[position] ?? -1;
    // Results and what an update writes are kept anyway.
    if (last <= position || roots.has(node) || node.op === 'assign' || isConstant(node)) continue;
    const bytes = elementCount(node.shape) * dtypes[node.dtype].bytes;
    changes[position + 1] = (changes[position + 1] ?? 0) + bytes;
    changes[last + 1] = (changes[last + 1] ?? 0) - bytes;
  }
  let bytes = 0;
  return changes.map((change) => (bytes += change));
}

/** Whether a node is a constant, which each piece that reads it makes anew. */
function isConstant({ op, inputs }: Node): boolean {
  if (op === 'constant' || op === 'iota') return true;
  return (op === 'reshape' || op === 'expand') && inputs.every(isConstant);
}

/**
 * The position at which least crosses, of `pieceOps` positions from `start + pieceOps` on; a later one, where too much
 * crosses there. Of those where equally little does, the first from which the program goes on as it did from
 * `start`: then what is between two such boundaries has the same plan as what is between the next two.
 */
function boundaryAfter(
  computed: readonly Node[],
  start: number,
  bytesAt: Float64Array,
): number | undefined {
  const from = start + pieceOps;
  let found: number | undefined;
  let isAlike = false;
  for (let at = from; at < bytesAt.length - pieceOps; at++) {
    const bytes = bytesAt[at] ?? Infinity;
    const least = bytesAt[found ?? -1] ?? Infinity;
    if (bytes <= crossingBytes && (bytes < least || (bytes === least && !isAlike))) {
      const goesOnAlike = isSimilar(computed, start, at);
      if (bytes < least || goesOnAlike) [found, isAlike] = [at, goesOnAlike];
    }
    if (found !== undefined && at >= from + pieceOps) break;
  }
  return found;
}

/** Whether the operations from `b` on are those from `a` on, as far as one sees without their connections. */
function isSimilar(computed: readonly Node[], a: number, b: number): boolean {
  for (let offset = 0; offset < likenessOps; offset++) {
    const [one, other] = [computed[a + offset], computed[b + offset]];
    if (one === undefined || other === undefined) return offset > 0;
    if (one.op !== other.op || !sameShape(one.shape, other.shape)) return false;
  }
  return true;
}
