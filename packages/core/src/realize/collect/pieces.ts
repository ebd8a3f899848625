import type { Node } from '../../graph/node.ts';
import { elementCount, sameShape } from '../../base/shape.ts';
import { dtypes } from '../../spec/dtype.ts';
import type { Subgraph } from './collect.ts';
import { isOneMessage } from './one-message.ts';

/** The approximate number of operations of the pieces that a long program is computed in. */
export const PIECE_OPS = 2048;

/** The number of operations that are compared to recognize a place in a program. It is more than those of one layer. */
const LIKENESS_OPS = 512;

/** The most bytes that may pass from one piece to the next, so that a piece is one or more iterations of a loop. */
const CROSSING_BYTES = 64 * 1024;

/**
 * Cuts a long program where few bytes pass from the operations before to those after, as between the iterations of a
 * loop whose results were not read yet. The pieces of a regular loop are alike, so that they run one plan. Returns the
 * roots of each piece, in program order.
 */
export function piecesOf(
  { computed }: Subgraph,
  roots: readonly Node[],
): readonly (readonly Node[])[] {
  // Only values whose sizes are known before the run can pass from one piece to the next.
  const isKnown = computed.every(({ rowCount }) => rowCount === null);
  if (computed.length <= 2 * PIECE_OPS || !isKnown) return [roots];
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
  /** The nodes with this id and larger ones come after the boundary. */
  readonly id: number;
  /** The nodes that are computed before the boundary and read after it. */
  readonly crossing: readonly Node[];
}

function boundariesOf(computed: readonly Node[], roots: ReadonlySet<Node>): readonly Boundary[] {
  const lastReads = lastReadsOf(computed);
  const bytesAt = crossingBytesAt(computed, lastReads, roots);
  const boundaries: Boundary[] = [];
  let start = 0;
  while (computed.length - start > 2 * PIECE_OPS) {
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

/** For each position, the bytes that are computed before it, and read at it or later. */
function crossingBytesAt(
  computed: readonly Node[],
  lastReads: Int32Array,
  roots: ReadonlySet<Node>,
): Float64Array {
  const changes = new Float64Array(computed.length + 1);
  for (const [position, node] of computed.entries()) {
    const last = lastReads[position] ?? -1;
    // Results and the values that updates write are kept anyway.
    if (last <= position || roots.has(node) || node.op === 'assign' || isConstant(node)) continue;
    const bytes = elementCount(node.shape) * dtypes[node.dtype].bytes;
    changes[position + 1] = (changes[position + 1] ?? 0) + bytes;
    changes[last + 1] = (changes[last + 1] ?? 0) - bytes;
  }
  let bytes = 0;
  return changes.map((change) => (bytes += change));
}

/** Whether a node is a constant. Each piece that reads a constant computes it anew. */
function isConstant({ op, inputs }: Node): boolean {
  if (op === 'constant' || op === 'iota') return true;
  return (op === 'reshape' || op === 'expand') && inputs.every(isConstant);
}

/**
 * The position that the fewest bytes cross, among the `pieceOps` positions from `start + pieceOps` on. If too many
 * bytes cross all of them, it is a later position. Among positions that equally few bytes cross, it is the first one
 * from which the program goes on as it did from `start`. The pieces between such boundaries then have the same plan.
 */
function boundaryAfter(
  computed: readonly Node[],
  start: number,
  bytesAt: Float64Array,
): number | undefined {
  const from = start + PIECE_OPS;
  let found: number | undefined;
  let isAlike = false;
  for (let at = from; at < bytesAt.length - PIECE_OPS; at++) {
    if (isInMessage(computed, at)) continue;
    const bytes = bytesAt[at] ?? Infinity;
    const least = bytesAt[found ?? -1] ?? Infinity;
    if (bytes <= CROSSING_BYTES && (bytes < least || (bytes === least && !isAlike))) {
      const goesOnAlike = isSimilar(computed, start, at);
      if (bytes < least || goesOnAlike) [found, isAlike] = [at, goesOnAlike];
    }
    if (found !== undefined && at >= from + PIECE_OPS) break;
  }
  return found;
}

/** Whether the operations at a position and before it travel as one message, which is not cut. */
function isInMessage(computed: readonly Node[], at: number): boolean {
  const [before, next] = [computed[at - 1], computed[at]];
  return before !== undefined && next !== undefined && isOneMessage(before, next);
}

/** Whether the operations from `b` on have the ops and shapes of those from `a` on. Their inputs are not compared. */
function isSimilar(computed: readonly Node[], a: number, b: number): boolean {
  for (let offset = 0; offset < LIKENESS_OPS; offset++) {
    const [one, other] = [computed[a + offset], computed[b + offset]];
    if (one === undefined || other === undefined) return offset > 0;
    if (one.op !== other.op || !sameShape(one.shape, other.shape)) return false;
  }
  return true;
}
