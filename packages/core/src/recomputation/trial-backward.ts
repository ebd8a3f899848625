import { rankState } from '../ambient.ts';
import { gradientsOfNode } from '../autograd/gradients-of-node.ts';
import { isGiven, recomputing } from '../autograd/recompute.ts';
import { walkBackward } from '../autograd/walk.ts';
import { currentEra, makeNode, newestNodeId, noGrad, setEra } from '../graph/create-node.ts';
import type { Node, Region, Seeded } from '../graph/node.ts';
import { ops } from '../graph/ops/ops.ts';
import { withCollectiveOrder } from '../graph/program-order.ts';
import { elementCount } from '../base/shape.ts';
import { pageIn, pageOut } from '../graph/ops/transfer.ts';
import { withoutValues } from '../realize/pending/small-values.ts';
import { dtypes } from '../spec/dtype.ts';
import type { SavedNodes } from './pass-values.ts';

/** A backward pass that is built to see what it would need, and never runs. */
export interface TrialBackward {
  /** The gradients of leaves, by leaf. */
  readonly gradients: ReadonlyMap<Node, Node>;
  /** All nodes that the pass has made have larger ids. */
  readonly olderId: number;
  /** The bytes that ranks collect ahead of their use: those of the two largest units that a region collects again. */
  readonly aheadBytes: number;
}

/** A choice in which everything is kept. */
export const allKept: SavedNodes = { stretches: new Map(), offloaded: new Set() };

/**
 * Builds the backward pass from these outputs to the leaves, as if some nodes were recomputed, each in its stretch, and others
 * came back from pages. Leaves get no gradients, hooks are not called, and no region hears of it.
 */
export function tryBackward(seeds: readonly Seeded[], saved: SavedNodes): TrialBackward {
  const olderId = newestNodeId();
  const gradients = new Map<Node, Node>();
  const collected = new Map<Region, number>();
  const substitute = substitution(saved, ({ region, op, shape, dtype }) => {
    if (region === null || ops[op].by !== 'group') return;
    const bytes = elementCount(shape) * dtypes[dtype].bytes;
    collected.set(region, (collected.get(region) ?? 0) + bytes);
  });
  const { observer, era, backwardFrom } = rankState;
  const restore = setAside(seeds);
  rankState.observer = null;
  try {
    withCollectiveOrder('apart', () =>
      withoutValues(() =>
        noGrad(() =>
          walkBackward(seeds, {
            needs: (node) => node.requiresGrad,
            isLeaf: (node) => node.sink !== null || node.op === 'input' || node.op === 'assign',
            gradientsOf: recomputing(gradientsOfNode, substitute),
            onLeaf: (leaf, gradient) => {
              if (gradient !== null) gradients.set(leaf, gradient);
            },
          }),
        ),
      ),
    );
  } finally {
    restore();
    rankState.observer = observer;
    rankState.backwardFrom = backwardFrom;
    setEra(era);
  }
  return { gradients, olderId, aheadBytes: 2 * Math.max(0, ...collected.values()) };
}

/**
 * Takes the hooks from all nodes that a backward pass from these outputs comes to. Returns a function that puts them back, and
 * after which no backward pass has come to the nodes.
 */
function setAside(seeds: readonly Seeded[]): () => void {
  const hooked = new Map<Node, Node['gradientHooks']>();
  const seen = new Set(seeds.map(({ output }) => output));
  for (const node of seen) {
    for (const input of node.inputs) if (input.requiresGrad) seen.add(input);
    if (node.gradientHooks === null) continue;
    hooked.set(node, node.gradientHooks);
    node.gradientHooks = null;
  }
  const fresh = [...seen].filter(({ wasWalked }) => !wasWalked);
  return () => {
    for (const [node, hooks] of hooked) node.gradientHooks = hooks;
    for (const node of fresh) {
      if (!node.wasWalked) continue;
      node.wasWalked = false;
      for (const input of node.inputs) input.openUses++;
    }
  };
}

/**
 * Returns what a backward pass reads in the place of each node. Other regions recompute what they would recompute, of which
 * `onElsewhere` is told.
 */
function substitution(
  { stretches, offloaded }: SavedNodes,
  onElsewhere: (node: Node) => void,
): (node: Node) => Node {
  const copies = new Map<Node, Node>();
  let place: number | Region | null = null;
  const substitute = (node: Node): Node => {
    if (isGiven(node)) return node;
    const stretch = stretches.get(node);
    const isRemade = stretch !== undefined || offloaded.has(node) || isRemadeElsewhere(node);
    if (!isRemade) return node;
    const known = copies.get(node);
    if (known !== undefined) return known;
    if (offloaded.has(node)) {
      // No run comes to this page, so it needs no store.
      const back = pageIn(pageOut(node, { store: 0, name: null }));
      copies.set(node, back);
      return back;
    }
    if (stretch === undefined) onElsewhere(node);
    const next = stretch ?? node.region;
    if (next !== place) setEra(currentEra() + 1);
    place = next;
    const { op, params, inputs, shape, dtype } = node;
    const copy = makeNode(op, params, inputs.map(substitute), shape, dtype, false);
    copy.axisTypes = node.axisTypes;
    copy.rowCount = node.rowCount;
    copies.set(node, copy);
    return copy;
  };
  return substitute;
}

/** Whether a region recomputes a node from its inputs. What comes back from a store of pages counts as kept. */
function isRemadeElsewhere(node: Node): boolean {
  return node.region?.remakes(node) === true && node.region.sourceOf(node) === null;
}
