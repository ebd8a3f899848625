import {
  type HostData,
  type LowPrecision,
  type Node,
  ParameterPart,
  RecomputeRegion,
  Tensor,
} from '@shardwise/core/extend';
import { LowPrecisionValues } from '../parameters/low-precision-values.ts';
import type { PartReader } from '../parameters/stand-in-placement.ts';
import { LowPrecisionGradient } from './low-precision-gradient.ts';

/**
 * Reads a parameter that every rank has whole in f32, which the optimizer, clipping and checkpoints see. The values that
 * forward passes read, and the gradients, are kept in fewer bits.
 */
export class LowPrecisionReader implements PartReader {
  readonly part: ParameterPart;
  readonly #low: LowPrecisionValues;

  /** `data` are the contents of `original`, in f32. */
  constructor(data: HostData, original: Tensor, policy: LowPrecision) {
    const { shape, requiresGrad, wholeShape, layout } = original;
    this.#low = new LowPrecisionValues({ policy, shape });
    this.part = new ParameterPart(data, shape, {
      requiresGrad,
      wholeShape,
      layout,
      gradient: new LowPrecisionGradient(this.#low),
      copy: this.#low,
    });
  }

  /**
   * Makes a leaf with the values that a forward pass reads. The backward pass widens them again, so that no f32 copy is
   * kept for it.
   */
  readForStage(): Node {
    const { kept, isWidened } = this.#low;
    if (!isWidened) return this.#leafOf(kept);
    const region = new RecomputeRegion({ keeps: () => false });
    return region.run(() => this.#leafOf(new Tensor(this.#low.read(kept.node))));
  }

  /** Makes a leaf with the values that an optimizer sees. */
  readOutsideForward(): Node {
    return this.#leafOf(this.part);
  }

  wholeOf(part: Node): Node {
    return part;
  }

  partOf(whole: Node): Node {
    return whole;
  }

  /**
   * Makes a node at which the backward pass ends, with the values of `tensor`. Code that reads it inside noGrad has no
   * gradient.
   */
  #leafOf(tensor: Tensor): Node {
    const leaf = tensor.detach().node;
    const { part } = this;
    if (!part.requiresGrad) return leaf;
    leaf.requiresGrad = true;
    // The parameter may have been frozen when the gradient arrives.
    leaf.sink = {
      expect: (loss) => part.contents.sink?.expect?.(loss),
      accumulate: (gradient) => part.contents.sink?.accumulate(gradient),
    };
    return leaf;
  }
}
