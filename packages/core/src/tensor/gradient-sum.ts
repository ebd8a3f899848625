import { addParts } from '../autograd/sum-parts.ts';
import { pageIn, pageOut } from '../graph/ops/transfer.ts';
import { detach } from '../graph/ops/graph-ops.ts';
import type { Node } from '../graph/node.ts';
import type { TransferParams } from '../spec/op.ts';
import {
  addPending,
  freeAfterRun,
  freeWhenRead,
  removePending,
} from '../realize/pending/pending.ts';
import type { PendingWork } from '../realize/pending/pending-work.ts';

/** A sum that has become a part of another sum's expression. The other sum reports what becomes of the expression. */
export interface HandedOver {
  /** Must be called when the expression has been computed. */
  readonly settled: () => void;
  /** Must be called when the expression will never be computed, because its run failed. */
  readonly dropped: () => void;
}

const reduction = 'the reduction of the gradient over the ranks';

/** A sum of gradients. It owns its memory until it is cleared or handed over. */
export class GradientSum {
  /** The store that keeps the sum. null: the device keeps it. */
  pages: TransferParams['pageOut'] | null = null;
  #kept: Node | null = null;
  /** The earlier nodes of this sum, which are needed until the next run has succeeded. The latest is the last. */
  #earlier: Node[] = [];
  /** The sums that were handed over to this one, by the node that took them in. */
  readonly #taken = new Map<Node, HandedOver>();

  get isEmpty(): boolean {
    return this.#kept === null;
  }

  /** The node that expressions read the sum by. */
  get node(): Node | null {
    return this.#kept === null ? null : pageIn(this.#kept);
  }

  /** Adds a gradient. `taken` is the sum that the gradient was made from, if there is one. */
  add(gradient: Node, taken?: HandedOver): void {
    const { node } = this;
    const sum = node === null ? gradient : addParts(node, gradient);
    this.replace(sum, taken);
  }

  /** Replaces the sum. The next realization computes the new node, even if nobody asks for it. */
  replace(node: Node, taken?: HandedOver): void {
    const replaced = this.#kept === null ? undefined : removePending(this.#kept);
    if (this.#kept !== null) this.#earlier.push(this.#kept);
    // The gradients of a and b in `a + b` may be the same node. Each sum needs a node of its own, as it frees it.
    const own = node.hasOwner ? detach(node) : node;
    const kept = this.pages === null ? own : pageOut(own, this.pages);
    kept.hasOwner = true;
    if (taken !== undefined) this.#taken.set(kept, taken);
    this.#keep(kept, replaced);
  }

  #keep(kept: Node, replaced?: PendingWork): void {
    this.#kept = kept;
    if (kept.value !== null) return;
    const outcome = {
      settled: () => this.#freeEarlier(kept),
      dropped: () => {
        if (this.#kept === kept) this.#goBack();
      },
    };
    addPending(kept, outcome, replaced);
  }

  /** Goes back to the latest node that has not failed, after the run of the newest gradient failed. */
  #goBack(): void {
    if (this.#kept !== null) this.#giveBack(this.#kept);
    this.#kept = null;
    for (let node = this.#earlier.pop(); node !== undefined; node = this.#earlier.pop()) {
      if (node.value?.kind === 'failed') {
        this.#giveBack(node);
        continue;
      }
      this.#keep(node);
      return;
    }
  }

  #giveBack(failed: Node): void {
    this.#taken.get(failed)?.dropped();
    this.#taken.delete(failed);
  }

  /** Hands the sum over to an expression of this step. The memory of the sum is freed after the run. */
  take(): Node | null {
    const { node } = this;
    if (this.#kept !== null) freeAfterRun(this.#kept, reduction);
    this.#kept = null;
    return node;
  }

  /** Hands the sum over to another one, which must call the returned functions. Returns undefined if it is empty. */
  handOver(): HandedOver | undefined {
    const kept = this.#kept;
    if (kept === null) return undefined;
    removePending(kept);
    const nodes = [...this.#earlier, kept];
    this.#kept = null;
    this.#earlier = [];
    return {
      settled: () => {
        for (const node of nodes) this.#free(node, reduction);
      },
      dropped: () => this.#takeBack(nodes),
    };
  }

  /** Takes back nodes that were handed over. Gradients that were added since then are added to them. */
  #takeBack(nodes: Node[]): void {
    const since = this.#kept;
    if (since !== null) removePending(since);
    this.#earlier = nodes.slice(0, -1);
    this.#kept = nodes.at(-1) ?? null;
    if (this.#kept?.value?.kind === 'failed') this.#goBack();
    else if (this.#kept !== null) this.#keep(this.#kept);
    if (since !== null && since.value?.kind !== 'failed') this.add(since);
  }

  clear(): void {
    const kept = this.#kept;
    this.#kept = null;
    if (kept !== null) {
      removePending(kept);
      this.#free(kept, 'zeroGrad()');
    }
    this.#freeEarlier();
  }

  /** Frees the nodes that `kept` was made of, or all earlier ones. */
  #freeEarlier(kept: Node | null = null): void {
    if (kept !== null) this.#settleTaken(kept);
    const own = this.#earlier.findIndex((node) => node === kept);
    const end = own < 0 ? this.#earlier.length : own;
    for (const node of this.#earlier.splice(0, end)) {
      this.#free(node, 'the accumulation of a later gradient');
    }
  }

  #free(node: Node, by: string): void {
    this.#settleTaken(node);
    freeWhenRead(node, by);
  }

  #settleTaken(node: Node): void {
    this.#taken.get(node)?.settled();
    this.#taken.delete(node);
  }
}
