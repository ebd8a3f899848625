import { addParts } from '../autograd/sum-parts.ts';
import type { GradientSink, Node } from '../graph/node.ts';
import type { TransferParams } from '../spec/op.ts';
import { GradientSum } from './gradient-sum.ts';

/** Called when a leaf's gradient of this backward pass is complete; may replace it. */
export type GradientHook = () => void;

/** An update that is about to be built. */
export interface Update {
  /** The tensors that are updated together. */
  readonly leaves: ReadonlySet<object>;
  /** Whether it averages over the ranks by itself, and takes gradients of this rank alone. */
  readonly takesLocalGradients: boolean;
}

/** What a strategy makes of a leaf's gradients before an update uses them: means over the ranks. */
export interface GradientReduction {
  /** A backward pass begins that comes to the leaf. */
  expect(): void;
  /** The gradient of this pass is in `Gradient.local`, and hooks have seen it. */
  arrive(): void;
  /** Throws where the gradient of the leaf is not what `update` takes. */
  checkUpdate(update: Update): void;
}

/** The gradient that a leaf collects over backward passes, until it is cleared. */
export class Gradient implements GradientSink {
  readonly hooks: Set<GradientHook> = new Set();
  /** The gradient of this rank alone, as long as no reduction has taken it. */
  readonly local: GradientSum = new GradientSum();
  readonly #total = new GradientSum();
  #reduction: GradientReduction | null = null;

  /** Has gradients go to `reduction`, which adds to the total what it makes of them; with null, to the total at once. */
  reduceBy(reduction: GradientReduction | null): void {
    this.#reduction = reduction;
  }

  /** The store that keeps the gradient; null for the device. */
  set pages(pages: TransferParams['pageOut'] | null) {
    this.#total.pages = pages;
    this.local.pages = pages === null ? null : { ...pages, name: `${pages.name} local` };
  }

  get isEmpty(): boolean {
    return this.#total.isEmpty && this.local.isEmpty;
  }

  /** What expressions read of it: also what no reduction has taken yet. */
  get node(): Node | null {
    const { node: total } = this.#total;
    const { node: local } = this.local;
    return total === null || local === null ? (total ?? local) : addParts(total, local);
  }

  /** What is kept of it in memory. */
  get kept(): readonly Node[] {
    return [this.#total.node, this.local.node].filter((node) => node !== null);
  }

  expect(): void {
    this.#reduction?.expect();
  }

  accumulate(gradient: Node): void {
    if (this.#reduction === null) this.#total.add(gradient);
    else this.local.add(gradient);
    this.runHooks();
    this.#reduction?.arrive();
  }

  runHooks(): void {
    for (const hook of this.hooks) hook();
  }

  /** Adds what a reduction has made of what was local, and of that of other ranks. */
  addReduced(gradient: Node): void {
    this.#total.add(gradient, this.local.handOver());
  }

  /** What is local in part is so as a whole. */
  replace(node: Node): void {
    if (this.local.isEmpty) {
      this.#total.replace(node);
      return;
    }
    this.local.replace(node, this.#total.handOver());
  }

  checkUpdate(update: Update): void {
    this.#reduction?.checkUpdate(update);
  }

  clear(): void {
    this.#total.clear();
    this.local.clear();
  }
}
