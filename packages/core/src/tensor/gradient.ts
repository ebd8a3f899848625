import { pageIn, pageOut } from '../graph/build/transfer.ts';
import { createNode, noGrad, none, type GradientSink, type Node } from '../graph/node.ts';
import { freeNode } from '../graph/ownership.ts';
import type { TransferParams } from '../spec/op.ts';
import { addPending, freeAfterRun, removePending } from '../realize/pending.ts';

/** Called when a leaf's gradient of this backward pass is complete; may replace it. */
export type GradientHook = (gradient: Node) => void;

/** Nodes whose memory a gradient frees: one of `a + b` that both owe is not also the other's. */
const owned = new WeakSet<Node>();

/** The gradient that a leaf collects over backward passes, until it is cleared. */
export class Gradient implements GradientSink {
  /** Where it is kept; null for the device. */
  pages: TransferParams['pageOut'] | null;
  #kept: Node | null = null;
  readonly hooks: Set<GradientHook> = new Set();
  #superseded: Node[] = [];

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
    const old = this.#kept;
    if (old !== null) {
      removePending(old);
      if (old.value !== null) this.#superseded.push(old);
    }
    const own = owned.has(node) ? noGrad(() => createNode('detach', none, [node])) : node;
    const kept = this.pages === null ? own : pageOut(own, this.pages);
    owned.add(kept);
    this.#kept = kept;
    if (kept.value === null) addPending(kept, () => this.#freeSuperseded());
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
    this.#freeSuperseded();
  }

  #freeSuperseded(): void {
    for (const node of this.#superseded) freeNode(node, 'the accumulation of a later gradient');
    this.#superseded = [];
  }
}
