import { elementCount } from '../base/shape.ts';
import type { Node } from '../graph/node.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import { ops } from '../graph/ops/ops.ts';
import { dtypes } from '../spec/dtype.ts';
import type { TensorHandle } from '../tensor/handle.ts';
import { noGrad } from '../graph/create-node.ts';
import { allKept, tryBackward } from './trial-backward.ts';

/** A value of a training pass, and the operations between which it has to be in memory. */
export interface PlannedLife {
  readonly node: Node;
  readonly bytes: number;
  /** The operation of the pass that makes it. */
  readonly from: number;
  /** The last operation that reads it. For gradients of leaves, the number of operations. */
  readonly to: number;
  readonly phase: 'forward' | 'backward';
  /** The leaf whose gradient it is. Null for other values. */
  readonly leaf: Node | null;
}

/** The values of a pass. */
interface PlannedLives {
  /** The number of operations of the forward and the backward pass. */
  readonly operations: number;
  readonly lives: readonly PlannedLife[];
}

/**
 * Says which values the forward and the backward pass of a loss have to hold, and for how long, if a device carries out one
 * operation after the other and frees each value after its last read. It computes nothing and leaves no gradient. Build
 * `loss` from a model before a strategy is applied to it.
 */
export function plannedLives(loss: TensorHandle): PlannedLives {
  const root = loss.node;
  const seed = noGrad(() => constantLike(root, 1));
  const { gradients, olderId } = tryBackward([{ output: root, gradient: seed }], allKept);
  const leaves = new Map(Array.from(gradients, ([leaf, gradient]) => [gradient, leaf]));
  const seen = new Set([root, ...gradients.values()]);
  for (const node of seen) for (const input of node.inputs) seen.add(input);
  const computed = [...seen].filter(({ value }) => value === null).toSorted((a, b) => a.id - b.id);
  const ends = new Map<Node, number>();
  const read = (node: Node, at: number): void => {
    if (ops[node.op].memory === 'own') ends.set(node, at);
    // A view keeps what it is a view of, and a value that each reader makes for itself what that is made of.
    else for (const input of node.inputs) read(input, at);
  };
  for (const [index, node] of computed.entries())
    for (const input of node.inputs) read(input, index);
  for (const gradient of leaves.keys()) read(gradient, computed.length);
  const lives = computed.flatMap((node, from): PlannedLife[] => {
    if (ops[node.op].memory !== 'own') return [];
    return [
      {
        node,
        bytes: elementCount(node.shape) * dtypes[node.dtype].bytes,
        from,
        to: ends.get(node) ?? from,
        phase: node.id > olderId ? 'backward' : 'forward',
        leaf: leaves.get(node) ?? null,
      },
    ];
  });
  return { operations: computed.length, lives };
}
