import { type HostData, type LowPrecision, type Node, type Shape } from '@shardwise/core/extend';
import { LowPrecisionValues } from '../../parameters/low-precision-values.ts';
import { ShardedPart, type ShardedPartOptions } from './sharded-part.ts';

export interface MixedPrecisionPartOptions extends ShardedPartOptions {
  readonly lowPrecision: LowPrecision;
  /** Whether each rank stores its part of the low-precision values, or the whole. */
  readonly stores: 'part' | 'whole';
  /**
   * Whether each rank keeps its part of the averaged gradient, or the whole gradient of its own batches until the step.
   */
  readonly keepsGradient: 'part' | 'whole';
}

/**
 * A part whose f32 values the optimizer, clipping and checkpoints see. The values that forward and backward read, and
 * the gradients, are stored and sent in fewer bits.
 */
export class MixedPrecisionPart extends ShardedPart {
  readonly #low: LowPrecisionValues;
  readonly #options: MixedPrecisionPartOptions;

  /** `data` is this rank's part, of shape `shape`, in f32. The first realization is a collective. */
  constructor(data: HostData, shape: Shape, options: MixedPrecisionPartOptions) {
    super(data, shape, options);
    this.#options = options;
    const { stores, lowPrecision: policy } = options;
    this.#low =
      stores === 'part'
        ? new LowPrecisionValues({ policy, shape })
        : new LowPrecisionValues({
            policy,
            shape: this.paddedShape,
            complete: (part) => this.gatherParts(part),
          });
    this.keep(this.#low);
  }

  override collect(): Node {
    const { kept } = this.#low;
    if (this.#options.stores === 'whole') return kept.node;
    return this.gatherForForward(kept).node;
  }

  override collectExact(): Node {
    return this.gatherParts(this).node;
  }

  /** Makes the whole parameter from the low-precision values of its parts. Shape: padded -> whole. */
  override wholeFrom(padded: Node): Node {
    return super.wholeFrom(this.#low.read(padded));
  }

  override get keepsWholeGradient(): boolean {
    return this.#options.keepsGradient === 'whole';
  }

  /** A replacement of the gradient is computed where it is read, so that no f32 gradient is kept. */
  protected override get replacesLate(): boolean {
    return true;
  }
}
