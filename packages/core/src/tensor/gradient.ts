import { createNode, none, type GradientSink, type Node } from '../graph/node.ts';
import { freeNode } from '../graph/ownership.ts';
import { addPending, freeAfterRun, removePending } from '../realize/pending.ts';

/** Called when a leaf's gradient of this backward pass is complete; may replace it. */
export type GradientHook = (gradient: Node) => void;

/** The gradient that a leaf collects over backward passes, until it is cleared. */
export class Gradient implements GradientSink {
  node: Node | null = null;
  readonly hooks: Set<GradientHook> = new Set();
  #superseded: Node[] = [];

  accumulate(gradient: Node): void {
    this.replace(this.node === null ? gradient : createNode('add', none, [this.node, gradient]));
    for (const hook of this.hooks) hook(gradient);
  }

  /** The new node is computed by the next realization, whoever asks for it. */
  replace(node: Node): void {
    const old = this.node;
    if (old !== null) {
      removePending(old);
      if (old.value !== null) this.#superseded.push(old);
    }
    this.node = node;
    if (node.value === null) addPending(node, () => this.#freeSuperseded());
  }

  /** Hands the gradient over to an expression of this step; its memory is free after the run. */
  take(): Node | null {
    const { node } = this;
    this.node = null;
    if (node !== null) freeAfterRun(node, 'the reduction of the gradient over the ranks');
    return node;
  }

  clear(): void {
    if (this.node !== null) {
      removePending(this.node);
      if (this.node.value !== null) freeNode(this.node, 'zeroGrad()');
    }
    this.node = null;
    this.#freeSuperseded();
  }

  #freeSuperseded(): void {
    for (const node of this.#superseded) freeNode(node, 'the accumulation of a later gradient');
    this.#superseded = [];
  }
}
