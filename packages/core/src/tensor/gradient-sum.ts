import { addParts } from '../autograd/sum-parts.ts';
import { pageIn, pageOut } from '../graph/build/transfer.ts';
import { createNode, noGrad } from '../graph/create-node.ts';
import { none, type Node } from '../graph/node.ts';
import { freeNode } from '../graph/ownership.ts';
import type { TransferParams } from '../spec/op.ts';
import { addPending, freeAfterRun, removePending } from '../realize/pending.ts';
import type { PendingWork } from '../realize/pending-work.ts';

/** A sum that an expression of another sum has taken in. */
export interface HandedOver {
  /** To be called when the expression has been computed. */
  readonly settled: () => void;
  /** To be called when the expression will never be computed, as its run failed. */
  readonly dropped: () => void;
}

const reduction = 'the reduction of the gradient over the ranks';

/** The sum of gradients, in its own memory, until it is cleared or handed over. */
export class GradientSum {
  /** The store that keeps the sum; null for the device. */
  pages: TransferParams['pageOut'] | null = null;
  #kept: Node | null = null;
  /** What it was before the run that is to come, the latest last. */
  #earlier: Node[] = [];
  /** What nodes of this sum were made of. */
  readonly #taken = new Map<Node, HandedOver>();

  get isEmpty(): boolean {
    return this.#kept === null;
  }

  /** The sum as expressions read it. */
  get node(): Node | null {
    return this.#kept === null ? null : pageIn(this.#kept);
  }

  /** Adds a gradient. `taken` is the sum that the gradient was made from. */
  add(gradient: Node, taken?: HandedOver): void {
    const { node } = this;
    const sum = node === null ? gradient : addParts(node, gradient);
    this.replace(sum, taken);
  }

  /** The next realization computes the new node, even if nobody asks for it. */
  replace(node: Node, taken?: HandedOver): void {
    const replaced = this.#kept === null ? undefined : removePending(this.#kept);
    if (this.#kept !== null) this.#earlier.push(this.#kept);
    // A node that `a + b` owes to both is freed by one of them only.
    const own = node.hasOwner ? noGrad(() => createNode('detach', none, [node])) : node;
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

  /** The latest gradient failed: what it was added to is there as before. */
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

  /** Hands the sum over to an expression of this step. Its memory is free after the run. */
  take(): Node | null {
    const { node } = this;
    if (this.#kept !== null) freeAfterRun(this.#kept, reduction);
    this.#kept = null;
    return node;
  }

  /** Hands it over to another sum, which must report what happens to it; undefined if there is none. */
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

  /** What has been added since then stays. */
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

  /** Frees what `kept` was made of, or everything. */
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
    if (node.value !== null) freeNode(node, by);
  }

  #settleTaken(node: Node): void {
    this.#taken.get(node)?.settled();
    this.#taken.delete(node);
  }
}
