import {
  Gradient,
  type GradientHook,
  type GradientReduction,
  type LeafGradient,
  type Node,
  type Update,
} from '@shardwise/core/extend';
import type { LowPrecisionValues } from '../parameters/low-precision-values.ts';

/** A gradient that is kept in fewer bits, and that optimizers read in f32. */
export class LowPrecisionGradient implements LeafGradient {
  readonly #low: LowPrecisionValues;
  /** The sum of the gradients of passes, in the dtype in which it is kept. */
  readonly #sum = new Gradient();
  /** The node that replaces the gradient. It is computed where it is read, so that no f32 copy is kept. */
  #replacement: Node | null = null;

  constructor(low: LowPrecisionValues) {
    this.#low = low;
  }

  get hooks(): Set<GradientHook> {
    return this.#sum.hooks;
  }

  get checkLoss(): ((loss: Node) => void) | null {
    return this.#sum.checkLoss;
  }

  set checkLoss(check: ((loss: Node) => void) | null) {
    this.#sum.checkLoss = check;
  }

  set pages(pages: LeafGradient['pages']) {
    this.#sum.pages = pages;
  }

  get node(): Node | null {
    const kept = this.#replacement ?? this.#sum.node;
    return kept === null ? null : this.#low.widen(kept);
  }

  get kept(): readonly Node[] {
    return this.#sum.kept;
  }

  expect(loss: Node | null): void {
    this.#sum.expect(loss);
  }

  accumulate(gradient: Node): void {
    if (this.#replacement !== null) this.#sum.replace(this.#low.narrow(this.#replacement));
    this.#replacement = null;
    this.#sum.accumulate(this.#low.narrow(gradient));
  }

  /** A gradient that ranks will still reduce is kept. */
  replace(node: Node): void {
    if (this.#sum.local.isEmpty) this.#replacement = node;
    else this.#sum.replace(this.#low.narrow(node));
  }

  reduceBy(reduction: GradientReduction): Gradient {
    return this.#sum.reduceBy(reduction);
  }

  checkUpdate(update: Update): void {
    this.#sum.checkUpdate(update);
  }

  clear(): void {
    this.#sum.clear();
    this.#replacement = null;
  }
}
