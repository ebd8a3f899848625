import {
  type Gradient,
  type GradientReduction,
  type HostData,
  type LowPrecision,
  type Node,
  type Parameter,
  RecomputeRegion,
  Tensor,
} from '@shardwise/core/extend';
import { LowPrecisionValues } from '../parameters/low-precision-values.ts';
import { StandInParameter } from '../parameters/stand-in-parameter.ts';
import { StoredPart } from '../parameters/stored-part.ts';

/**
 * A whole parameter in f32, which the optimizer, clipping and checkpoints see. The values that forward passes read, and
 * the gradients, are kept in fewer bits.
 */
export class LowPrecisionPart extends StoredPart {
  readonly #low: LowPrecisionValues;
  #gradient: Gradient | null = null;

  /** `data` are the contents of `original`, in f32. */
  constructor(data: HostData, original: Tensor, policy: LowPrecision) {
    const { shape, requiresGrad, wholeShape, layout } = original;
    super(data, shape, { requiresGrad, wholeShape, layout });
    this.#low = new LowPrecisionValues({ policy, shape });
    this.keep(this.#low);
  }

  /**
   * Makes a leaf with the values that a forward pass reads. The backward pass widens them again, so that no f32 copy is
   * kept for it.
   */
  lowLeaf(): Node {
    const { kept, isWidened } = this.#low;
    if (!isWidened) return this.#leafOf(kept);
    const region = new RecomputeRegion({ keeps: () => false });
    return region.run(() => this.#leafOf(new Tensor(this.#low.read(kept.node))));
  }

  /** Makes a leaf with the values that an optimizer sees. */
  exactLeaf(): Node {
    return this.#leafOf(this);
  }

  /**
   * Makes a node at which the backward pass ends, with the values of `tensor`. Code that reads it inside noGrad has no
   * gradient.
   */
  #leafOf(tensor: Tensor): Node {
    const leaf = tensor.detach().node;
    if (!this.requiresGrad) return leaf;
    leaf.requiresGrad = true;
    leaf.sink = {
      expect: (loss) => this.contents.sink?.expect?.(loss),
      accumulate: (gradient) => {
        this.keepReplacement();
        this.contents.sink?.accumulate(this.narrow(gradient));
      },
    };
    return leaf;
  }

  override reduceGradient(reduction: GradientReduction): Gradient {
    this.#gradient = super.reduceGradient(reduction);
    return this.#gradient;
  }

  /**
   * A gradient that ranks will still reduce is kept. Other replacements are computed where they are read, so that no
   * f32 copy is kept.
   */
  override setGradientNode(node: Node): void {
    if (this.#gradient?.local.isEmpty === false) super.setGradientNode(this.narrow(node));
    else this.replaceLate(node);
  }
}

/** A parameter that every rank has whole in f32, and that forward passes read in fewer bits. */
export class LowPrecisionParameter extends StandInParameter {
  readonly #part: LowPrecisionPart;

  constructor(part: LowPrecisionPart, original: Parameter) {
    super(original);
    this.#part = part;
  }

  override get part(): LowPrecisionPart {
    return this.#part;
  }

  override wholeOf(part: Tensor): Tensor {
    return this.layerParameter?.wholeOf(part) ?? part;
  }

  override partOf(whole: Tensor): Tensor {
    return this.layerParameter?.partOf(whole) ?? whole;
  }

  override readForStage(): Node {
    return this.#part.lowLeaf();
  }

  protected override readOutsideForward(): Node {
    return this.#part.exactLeaf();
  }
}
