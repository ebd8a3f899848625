import { type Node, ParameterPart } from '@shardwise/core/extend';
import type { LowPrecisionValues } from './low-precision-values.ts';

/**
 * A part for which a rank may keep a second copy of the values in fewer bits, which forward passes read. Its gradient
 * then has fewer bits, too.
 */
export abstract class StoredPart extends ParameterPart {
  #low: LowPrecisionValues | null = null;
  /** The node that replaces the gradient. It is not computed until it is read. */
  #replacement: Node | null = null;

  /** The values that forward passes read and this rank keeps. The optimizer updates `contents`. */
  get stored(): Node {
    return this.#low?.kept.contents ?? this.contents;
  }

  /** Keeps a copy of the values in `low`, from now on. */
  protected keep(low: LowPrecisionValues): void {
    this.#low = low;
    low.store(this.contents);
  }

  override store(value: Node): this {
    super.store(value);
    this.#low?.store(value);
    return this;
  }

  override dispose(): void {
    super.dispose();
    this.#low?.dispose();
  }

  /** The gradient in f32, whatever the dtype in which it is kept. */
  override get gradientNode(): Node | null {
    const kept = this.#replacement ?? this.accumulated;
    return kept === null || this.#low === null ? kept : this.#low.widen(kept);
  }

  /** The sum of the gradients of passes, in the dtype in which it is kept. */
  protected get accumulated(): Node | null {
    return super.gradientNode;
  }

  /** Returns a gradient in the dtype in which it is kept and reduced. Shape: N -> N. */
  protected narrow(gradient: Node): Node {
    return this.#low?.narrow(gradient) ?? gradient;
  }

  /** Replaces the gradient by `node`, which is computed where it is read, so that no copy is kept. */
  protected replaceLate(node: Node): void {
    this.#replacement = node;
  }

  /** Keeps the replacement of the gradient, because later passes add to it. Returns whether there was one. */
  protected keepReplacement(): boolean {
    if (this.#replacement === null) return false;
    super.setGradientNode(this.narrow(this.#replacement));
    this.#replacement = null;
    return true;
  }

  override zeroGrad(): void {
    super.zeroGrad();
    this.#replacement = null;
  }
}
