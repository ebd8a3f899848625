import type { Unissued } from '../../graph/collective-order.ts';
import type { Node } from '../../graph/node.ts';
import { moveToHost } from '../../graph/ownership.ts';
import type { Subgraph } from '../collect/collect.ts';
import { piecesOf } from '../collect/pieces.ts';
import type { Collected } from './out-of-plan-message.ts';
import type { Work } from './realization.ts';

// The code for long programs, which is loaded when there is one.

/** What a realization does for each piece. */
interface PieceRunner {
  collect(piece: Work): Promise<Collected>;
  run(piece: Work, collected: Collected): Promise<void>;
  /** The bytes of a value in host memory. Undefined if it is not there. */
  bytesOf(node: Node): Uint8Array | undefined;
}

/**
 * Runs a long program in pieces, of which each is planned and compiled by itself. `ends` are the nodes that must have
 * values in the end. Returns false, and runs nothing, if the program is one piece.
 */
export async function runInPieces(
  work: Work,
  subgraph: Subgraph,
  ends: readonly Node[],
  runner: PieceRunner,
): Promise<boolean> {
  const pieces = piecesOf(subgraph, ends);
  if (pieces.length <= 1) return false;
  const ofProgram = new Set(work.roots);
  const senders = new Set(subgraph.issued);
  for (const roots of pieces) {
    // What the order of the program asks for, and what is kept, is among the roots of the pieces.
    const piece = {
      ...work,
      unissued: new Map<Node, Unissued>(),
      issues: 0,
      roots: roots.filter(({ value }) => value === null),
    };
    const collected = await runner.collect(piece);
    const issued = collected.subgraph.computed.filter((node) => senders.has(node));
    await runner.run(piece, { ...collected, subgraph: { ...collected.subgraph, issued } });
    // Values that pass to the next piece are small. On the host, the garbage collector frees them.
    for (const node of roots) {
      const bytes = ofProgram.has(node) ? undefined : runner.bytesOf(node);
      if (bytes !== undefined && node.op !== 'assign') moveToHost(node, bytes.slice());
    }
  }
  return true;
}
