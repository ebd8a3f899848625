import { flopsOf } from '../graph/flops-of.ts';
import type { Node } from '../graph/node.ts';
import { ops } from '../graph/ops/ops.ts';
import { elementCount } from '../base/shape.ts';
import { dtypes } from '../spec/dtype.ts';
import type { RecomputationChoice } from './recomputation-choice.ts';
import {
  type Recomputation,
  recomputationOf,
  type RecomputeProblem,
  type SavedValues,
} from './recompute-problem.ts';

/** What computing and moving an element takes, in the time of so many operations of products. */
const FLOPS_PER_ELEMENT = 64;

/** The nodes that a backward pass does not find on the device as the forward pass left them. */
export interface SavedNodes {
  /** The stretch of each node that is recomputed. */
  readonly stretches: ReadonlyMap<Node, number>;
  /** The nodes whose values leave the device and come back. */
  readonly offloaded: ReadonlySet<Node>;
}

/** How values leave the device. */
interface Moves {
  /** Whether the pages of a pass have room for the value of a node. */
  readonly hasPages: (node: Node) => boolean;
  /** The time in which so many bytes leave, or come back, in operations of products. */
  readonly costOf: (bytes: number) => number;
  /** Whether the device computes meanwhile. */
  readonly overlaps: boolean;
}

/** The values of forward passes, and the nodes that they are the values of. */
export class PassValues {
  readonly problem: RecomputeProblem;
  /** The nodes with memory of their own, in the order of the values. */
  readonly #nodes: readonly Node[];
  /** For each node of the passes, the indices of the values that lie in memory for it: its own, or those it is a view of. */
  readonly #values = new Map<Node, readonly number[]>();

  /**
   * `members` are the nodes of the passes in the order of the program, `results` those that leave them, and `saved`
   * what the backward pass reads.
   */
  constructor(
    members: readonly Node[],
    results: ReadonlySet<Node>,
    saved: ReadonlySet<Node>,
    moves: Moves,
  ) {
    const nodes: Node[] = [];
    const inputsOf = ({ inputs }: Node): readonly number[] => [
      ...new Set(inputs.flatMap((input) => this.#values.get(input) ?? [])),
    ];
    for (const node of members) {
      const isOwn = ops[node.op].memory === 'own';
      this.#values.set(node, isOwn ? [nodes.push(node) - 1] : inputsOf(node));
    }
    const valuesOf = (some: Iterable<Node>): ReadonlySet<number> =>
      new Set(Array.from(some, (node) => this.#values.get(node) ?? []).flat());
    const [isSaved, isResult] = [valuesOf(saved), valuesOf(results)];
    this.#nodes = nodes;
    const values = nodes.map((node, index) => {
      const { by } = ops[node.op];
      const elements = elementCount(node.shape);
      const bytes = elements * dtypes[node.dtype].bytes;
      // What the program has read lies on the device anyway, also while it is in a page.
      const mayLeave =
        by !== 'store' && node.rowCount === null && node.value === null && moves.hasPages(node);
      return {
        bytes,
        moveCost: mayLeave ? moves.costOf(bytes) : null,
        cost: flopsOf(node) + FLOPS_PER_ELEMENT * elements,
        inputs: inputsOf(node),
        isSaved: isSaved.has(index),
        // What other ranks or a store have sent is not sent twice, so ranks may choose different values.
        isFixed: isResult.has(index) || by === 'group' || by === 'store' || node.rowCount !== null,
      };
    });
    this.problem = { values, overlapsMoves: moves.overlaps };
  }

  /** The nodes that are moved, and those that are recomputed, among which views of what was moved are. */
  nodesOf({ isRecomputed, isOffloaded, stretches }: Recomputation): SavedNodes {
    const found = new Map<Node, number>();
    const offloaded = new Set<Node>();
    for (const [node, values] of this.#values) {
      const value = values.find(
        (index) => isRecomputed[index] === true || isOffloaded[index] === true,
      );
      if (value === undefined) continue;
      if (this.#nodes[value] === node && isOffloaded[value] === true) offloaded.add(node);
      else found.set(node, stretches[value] ?? 0);
    }
    return { stretches: found, offloaded };
  }

  /** Says what is chosen if these values are saved. */
  describe(
    saved: SavedValues,
    flopsPerSecond: number,
  ): Omit<RecomputationChoice, 'plannedBytes' | 'plannedBytesOfNone'> {
    const made = recomputationOf(this.problem, saved);
    const { isRead, isRecomputed, isOffloaded } = made;
    const isKept = isRead.map(
      (read, i) => read && isRecomputed[i] !== true && isOffloaded[i] !== true,
    );
    const nodesWhere = (holds: readonly boolean[]): readonly Node[] =>
      this.#nodes.filter((_, index) => holds[index] === true);
    const bytesWhere = (holds: readonly boolean[]): number =>
      this.problem.values.reduce((sum, { bytes }, i) => sum + (holds[i] === true ? bytes : 0), 0);
    const recomputed = nodesWhere(isRecomputed);
    return {
      recomputed: recomputed.map(described),
      offloaded: nodesWhere(isOffloaded).map(described),
      bytes: {
        kept: bytesWhere(isKept),
        recomputed: bytesWhere(isRecomputed),
        offloaded: bytesWhere(isOffloaded),
      },
      seconds: {
        recomputed: made.recomputeCost / flopsPerSecond,
        offloaded: made.waitCost / flopsPerSecond,
      },
      recomputedFlops: recomputed.reduce((sum, node) => sum + flopsOf(node), 0),
    };
  }
}

function described({ op, shape, dtype }: Node): RecomputationChoice['recomputed'][number] {
  return { op, shape, dtype };
}
