import { addParts } from '../autograd/sum-parts.ts';
import type { GradientSink, Node } from '../graph/node.ts';
import type { TransferParams } from '../spec/op.ts';
import { GradientSum } from './gradient-sum.ts';

/** A function that is called when a leaf's gradient of this backward pass is complete. It may replace the gradient. */
export type GradientHook = () => void;

/** An update that is about to be built. */
export interface Update {
  /** The tensors that are updated together. */
  readonly leaves: ReadonlySet<object>;
  /** Whether the update averages over the ranks itself, and so takes gradients of this rank alone. */
  readonly takesLocalGradients: boolean;
}

/** What a strategy does with the gradients of a leaf before an update uses them, such as averaging over the ranks. */
export interface GradientReduction {
  /** Called when a backward pass begins that will reach the leaf. */
  expect(): void;
  /** Called when the gradient of this pass is in `Gradient.local` and hooks have seen it. */
  arrive(): void;
  /** Throws if the gradient of the leaf is not the one that `update` needs. */
  checkUpdate(update: Update): void;
}

/** What a leaf does with its gradients, from the backward pass that brings them to the update that reads them. */
export interface LeafGradient extends GradientSink {
  /** Called when a gradient of this leaf is complete. */
  readonly hooks: Set<GradientHook>;
  /** Called with the loss when a backward pass begins that will reach the leaf. */
  checkLoss: ((loss: Node) => void) | null;
  /** The store that keeps the gradient. null: the device keeps it. */
  set pages(pages: TransferParams['pageOut'] | null);
  /** The node that expressions read the gradient by. Null if there is none. */
  readonly node: Node | null;
  /** The nodes of the gradient that are kept in memory. */
  readonly kept: readonly Node[];
  /** Replaces the whole gradient. */
  replace(node: Node): void;
  /** From now on, gradients go to `reduction`. Returns what it takes them from. */
  reduceBy(reduction: GradientReduction): Gradient;
  checkUpdate(update: Update): void;
  clear(): void;
}

/** The gradient that a leaf collects over backward passes, until it is cleared. */
export class Gradient implements LeafGradient {
  readonly hooks: Set<GradientHook> = new Set();
  /** The gradient of this rank alone, until a reduction takes it. */
  readonly local: GradientSum = new GradientSum();
  readonly #total = new GradientSum();
  /** Called with the loss when a backward pass begins that will reach the leaf. */
  checkLoss: ((loss: Node) => void) | null = null;
  #reduction: GradientReduction | null = null;

  /**
   * From now on, gradients go to `reduction`, which adds its results to the total. With null, they go to the
   * total directly.
   */
  reduceBy(reduction: GradientReduction | null): this {
    this.#reduction = reduction;
    return this;
  }

  /** The store that keeps the gradient. null: the device keeps it. */
  set pages(pages: TransferParams['pageOut'] | null) {
    this.#total.pages = pages;
    this.local.pages = pages === null ? null : { ...pages, name: `${pages.name} local` };
  }

  get isEmpty(): boolean {
    return this.#total.isEmpty && this.local.isEmpty;
  }

  /** The node that expressions read the gradient by. It includes the part that no reduction has taken yet. */
  get node(): Node | null {
    const { node: total } = this.#total;
    const { node: local } = this.local;
    return total === null || local === null ? (total ?? local) : addParts(total, local);
  }

  /** The nodes of the gradient that are kept in memory. */
  get kept(): readonly Node[] {
    return [this.#total.node, this.local.node].filter((node) => node !== null);
  }

  expect(loss: Node | null): void {
    if (loss !== null) this.checkLoss?.(loss);
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

  /** Adds the result of a reduction of this rank's gradient and those of other ranks. */
  addReduced(gradient: Node): void {
    this.#total.add(gradient, this.local.handOver());
  }

  /** Replaces the whole gradient. If a part of it was local, the new one is local. */
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
