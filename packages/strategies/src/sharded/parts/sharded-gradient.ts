import {
  dropReduction,
  formatShape,
  Gradient,
  type GradientHook,
  type GradientReduction,
  GradientSum,
  keepAverage,
  type LeafGradient,
  type Node,
  noteUse,
  type Shape,
  TensorStateError,
  type Update,
  zeros,
} from '@shardwise/core/extend';
import type { LowPrecisionValues } from '../../parameters/low-precision-values.ts';
import { sumOf } from './sum-of.ts';

export interface ShardedGradientOptions {
  readonly partShape: Shape;
  /** The shape of the tensor that is sharded. */
  readonly wholeShape: Shape;
  /**
   * Whether the whole gradient of this rank's batches is kept until zeroGrad(). Otherwise its part of the average is
   * kept.
   */
  readonly keepsWhole: boolean;
  /** The dtype of gradients, if they have fewer bits than those that an optimizer reads. Null: they have as many. */
  readonly low: LowPrecisionValues | null;
  /** Returns the number of the latest update of the part. */
  readonly version: () => number;
}

/** This rank's part of the average of a gradient. `again` reduces the gradient once more. */
interface Reduced {
  readonly average: Node;
  readonly again: () => Node;
}

/**
 * The gradient of a part that ranks average. It goes one way: the whole gradient of this rank's batches may wait
 * (`keepLocal`), a group takes it (`takeLocal`) and brings the rank's part of the average back (`takeReduced`), which the
 * update reads (`node`). Clipping may replace it there.
 */
export class ShardedGradient implements LeafGradient {
  /** Whether the whole gradient of this rank's batches is kept. */
  readonly keepsWhole: boolean;
  readonly #options: ShardedGradientOptions;
  /** The gradient of the whole parameter, from this rank's batches alone. */
  readonly #local = new GradientSum();
  #waits = false;
  /** The sum of the averages of passes, and of gradients of expressions that read the part itself. */
  readonly #averaged = new Gradient();
  /** This rank's part of the average, if the rank keeps the whole gradient. */
  #reduced: Reduced | null = null;
  /** The node that replaces the gradient. It is computed where it is read, so that no copy is kept. */
  #replacement: Node | null = null;
  #checkUpdate: ((update: Update) => void) | null = null;

  constructor(options: ShardedGradientOptions) {
    this.#options = options;
    this.keepsWhole = options.keepsWhole;
    // takeReduced adds the averages.
    this.#averaged.reduceBy({
      expect: () => {},
      arrive: () => {},
      checkUpdate: (update) => this.#checkUpdate?.(update),
    });
  }

  get hooks(): Set<GradientHook> {
    return this.#averaged.hooks;
  }

  get checkLoss(): ((loss: Node) => void) | null {
    return this.#averaged.checkLoss;
  }

  set checkLoss(check: ((loss: Node) => void) | null) {
    this.#averaged.checkLoss = check;
  }

  /** Also pages the gradient that waits to be reduced over the ranks. */
  set pages(pages: LeafGradient['pages']) {
    this.#averaged.pages = pages;
    this.#local.pages = pages === null ? null : { ...pages, name: `${pages.name} local` };
  }

  /** The gradient of the part, averaged over the ranks, as an optimizer reads it. */
  get node(): Node | null {
    const kept = this.#replacement ?? sumOf(this.#averaged.node, this.#averageNow());
    return kept === null ? null : (this.#options.low?.widen(kept) ?? kept);
  }

  get kept(): readonly Node[] {
    const { node } = this.#local;
    return node === null ? this.#averaged.kept : [...this.#averaged.kept, node];
  }

  expect(loss: Node | null): void {
    this.#averaged.expect(loss);
  }

  accumulate(gradient: Node): void {
    this.#averaged.accumulate(gradient);
  }

  reduceBy(reduction: GradientReduction): Gradient {
    return this.#averaged.reduceBy(reduction);
  }

  /** `check` throws if this rank's part of the gradient is not the one that an update takes. */
  checkUpdatesBy(check: (update: Update) => void): void {
    this.#checkUpdate = check;
  }

  checkUpdate(update: Update): void {
    this.#averaged.checkUpdate(update);
  }

  /** Throws TensorStateError while gradients wait to be reduced, because `node` does not include them. */
  replace(node: Node): void {
    if (this.#waits) throw waitingError(this.#options.partShape);
    if (this.keepsWhole || this.#options.low !== null) this.#replacement = node;
    else this.#averaged.replace(node);
  }

  /** Whether gradients of this rank's batches wait for a later reduction. */
  get waits(): boolean {
    return this.#waits;
  }

  /** Makes a gradient of this rank's batches wait for a later reduction. Shape: whole. */
  keepLocal(gradient: Node): void {
    this.#keepReplacement();
    this.#waits = true;
    this.#local.add(this.#narrow(gradient));
  }

  /**
   * Takes the gradient to average over the ranks: that of a pass, if any, plus those that have waited. Zeros if there
   * is neither. Shape: whole -> whole.
   */
  takeLocal(gradient: Node | null): Node {
    this.#keepReplacement();
    this.#waits = false;
    const own = gradient === null ? null : this.#narrow(gradient);
    if (this.keepsWhole && own !== null) this.#local.add(own);
    const all = this.keepsWhole ? this.#local.node : sumOf(this.#local.take(), own);
    return all ?? this.#narrow(zeros(this.#options.wholeShape, 'f32').node);
  }

  /** Adds this rank's part of an average. `again` makes it once more. Shapes: part, -> part. */
  takeReduced(average: Node, again: () => Node): void {
    if (this.keepsWhole) this.#replaceReduced({ average, again });
    else this.#averaged.addReduced(average);
    this.#averaged.runHooks();
  }

  clear(): void {
    this.#averaged.clear();
    this.#replacement = null;
    this.#local.clear();
    this.#waits = false;
    this.#replaceReduced(null);
  }

  /**
   * This rank's part of the average, if the rank keeps the whole gradient. The reduction takes its place in the program
   * where this is asked for. An update uses it up: after that, the whole gradient is reduced again.
   */
  #averageNow(): Node | null {
    if (this.#reduced === null) return null;
    const { average, again } = this.#reduced;
    if (average.isUnused) noteUse(average);
    if (average.id > this.#options.version()) return average;
    const next = again();
    this.#replaceReduced({ average: next, again });
    return next;
  }

  #replaceReduced(reduced: Reduced | null): void {
    if (this.#reduced !== null) dropReduction(this.#reduced.average);
    if (reduced !== null) keepAverage(reduced.average);
    this.#reduced = reduced;
  }

  /**
   * Keeps the replacement of the gradient, because later passes add to it. It also stands for the gradients that were
   * reduced.
   */
  #keepReplacement(): void {
    if (this.#replacement === null) return;
    this.#averaged.replace(this.#narrow(this.#replacement));
    this.#replacement = null;
    this.#replaceReduced(null);
    this.#local.take();
  }

  /** Returns a gradient in the dtype in which it is kept and reduced. Shape: N -> N. */
  #narrow(gradient: Node): Node {
    return this.#options.low?.narrow(gradient) ?? gradient;
  }
}

function waitingError(shape: Shape): TensorStateError {
  return new TensorStateError(
    {
      asked: `to replace the gradient of a part of shape ${formatShape(shape)}`,
      found: 'gradients of passes inside noSync wait to be added to it',
      todo: 'Clip and unscale gradients after the last backward(), which is outside of noSync',
    },
    { shape },
  );
}
