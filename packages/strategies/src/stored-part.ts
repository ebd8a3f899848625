import { type Node, ParameterPart } from '@shardwise/core/extend';
import type { LowPrecisionValues } from './mixed-precision/low-precision-values.ts';

/**
 * A part beside which a rank may keep other values that forward passes read, in fewer bits; its gradient then has
 * fewer bits, too.
 */
export abstract class StoredPart extends ParameterPart {
  #low: LowPrecisionValues | null = null;
  /** What stands for the gradient, and is not computed until it is read. */
  #replacement: Node | null = null;

  /** What this rank keeps of the values that forward reads; `contents` is what is updated. */
  get stored(): Node {
    return this.#low?.kept.contents ?? this.contents;
  }

  /** Has `low` keep the values, from now on. */
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

  /** The gradient in f32, whatever it is kept in. */
  override get gradientNode(): Node | null {
    const kept = this.#replacement ?? this.accumulated;
    return kept === null || this.#low === null ? kept : this.#low.widen(kept);
  }

  /** What passes have added up, as it is kept. */
  protected get accumulated(): Node | null {
    return super.gradientNode;
  }

  /** As a gradient is kept and reduced. Shape: N -> N. */
  protected narrow(gradient: Node): Node {
    return this.#low?.narrow(gradient) ?? gradient;
  }

  /** Has `node` stand for the gradient. It is computed where it is read, so that no copy is kept. */
  protected replaceLate(node: Node): void {
    this.#replacement = node;
  }

  /** Keeps what stands for the gradient, as later passes add to it. Returns whether there was something. */
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
