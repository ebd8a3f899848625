import { pageIn, pageOut } from '../graph/build/transfer.ts';
import { createNode, noGrad, none, type GradientSink, type Node } from '../graph/node.ts';
import { freeNode } from '../graph/ownership.ts';
import type { TransferParams } from '../spec/op.ts';
import { addPending, freeAfterRun, type PendingWork, removePending } from '../realize/pending.ts';

/** Called when a leaf's gradient of this backward pass is complete; may replace it. */
export type GradientHook = (gradient: Node) => void;

/** The gradient that a leaf collects over backward passes, until it is cleared. */
export class Gradient implements GradientSink {
  /** Where it is kept; null for the device. */
  pages: TransferParams['pageOut'] | null;
  #kept: Node | null = null;
  readonly hooks: Set<GradientHook> = new Set();
  /** What it was before the run that is to come, the latest last. */
  #earlier: Node[] = [];

  constructor(pages: TransferParams['pageOut'] | null = null) {
    this.pages = pages;
  }

  /** What expressions read of it. */
  get node(): Node | null {
    return this.#kept === null ? null : pageIn(this.#kept);
  }

  accumulate(gradient: Node): void {
    const { node } = this;
    this.replace(node === null ? gradient : createNode('add', none, [node, gradient]));
    for (const hook of this.hooks) hook(gradient);
  }

  /** The new node is computed by the next realization, whoever asks for it. */
  replace(node: Node): void {
    const replaced = this.#kept === null ? undefined : removePending(this.#kept);
    if (this.#kept !== null) this.#earlier.push(this.#kept);
    // A node that `a + b` owes to both is freed by one of them only.
    const own = node.hasOwner ? noGrad(() => createNode('detach', none, [node])) : node;
    const kept = this.pages === null ? own : pageOut(own, this.pages);
    kept.hasOwner = true;
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
    this.#kept = null;
    for (let node = this.#earlier.pop(); node !== undefined; node = this.#earlier.pop()) {
      if (node.value?.kind === 'failed') continue;
      this.#keep(node);
      return;
    }
  }

  /** Hands the gradient over to an expression of this step; its memory is free after the run. */
  take(): Node | null {
    const { node } = this;
    if (this.#kept !== null) {
      freeAfterRun(this.#kept, 'the reduction of the gradient over the ranks');
    }
    this.#kept = null;
    return node;
  }

  clear(): void {
    if (this.#kept !== null) {
      removePending(this.#kept);
      if (this.#kept.value !== null) freeNode(this.#kept, 'zeroGrad()');
    }
    this.#kept = null;
    this.#freeEarlier();
  }

  /** Frees what `kept` was made of, or everything. */
  #freeEarlier(kept: Node | null = null): void {
    const own = this.#earlier.findIndex((node) => node === kept);
    const end = own < 0 ? this.#earlier.length : own;
    for (const node of this.#earlier.splice(0, end)) {
      if (node.value !== null) freeNode(node, 'the accumulation of a later gradient');
    }
  }
}
