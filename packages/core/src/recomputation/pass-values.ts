import { flopsOf } from '../graph/flops-of.ts';
import type { Node } from '../graph/node.ts';
import { ops } from '../graph/ops/ops.ts';
import { elementCount } from '../base/shape.ts';
import { dtypes } from '../spec/dtype.ts';
import type { Recomputation, RecomputeProblem } from './recompute-problem.ts';

/** What computing and moving an element takes, in the time of so many operations of products. */
const FLOPS_PER_ELEMENT = 64;

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
  constructor(members: readonly Node[], results: ReadonlySet<Node>, saved: ReadonlySet<Node>) {
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
    this.problem = nodes.map((node, index) => {
      const { by } = ops[node.op];
      const elements = elementCount(node.shape);
      return {
        bytes: elements * dtypes[node.dtype].bytes,
        cost: flopsOf(node) + FLOPS_PER_ELEMENT * elements,
        inputs: inputsOf(node),
        isSaved: isSaved.has(index),
        // What other ranks or a store have sent is not sent twice, so ranks may choose different values.
        isFixed: isResult.has(index) || by === 'group' || by === 'store' || node.rowCount !== null,
      };
    });
  }

  /** The stretch of each node that is recomputed. */
  stretchesOf({ isRecomputed, stretches }: Recomputation): ReadonlyMap<Node, number> {
    const found = new Map<Node, number>();
    for (const [node, values] of this.#values) {
      const value = values.find((index) => isRecomputed[index] === true);
      if (value !== undefined) found.set(node, stretches[value] ?? 0);
    }
    return found;
  }

  /** The nodes of the values that are recomputed. */
  nodesOf({ isRecomputed }: Recomputation): readonly Node[] {
    return this.#nodes.filter((_, index) => isRecomputed[index] === true);
  }
}
