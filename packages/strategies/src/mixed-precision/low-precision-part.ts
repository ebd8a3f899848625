import {
  BufferTensor,
  type Gradient,
  type GradientReduction,
  type HostData,
  type LowPrecision,
  type Node,
  noGrad,
  RecomputeRegion,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import { StoredPart } from '../stored-part.ts';

/**
 * All of a parameter in f32, which an optimizer, clipping and checkpoints see. What forward passes read of it,
 * and what backward passes leave, is kept in fewer bits.
 */
export class LowPrecisionPart extends StoredPart {
  readonly #low: Tensor;
  readonly #policy: LowPrecision;
  #gradient: Gradient | null = null;
  /** What stands for the gradient, and is not computed until it is read. */
  #replacement: Node | null = null;

  /** `data` are the contents of `original`, in f32. */
  constructor(data: HostData, original: Tensor, policy: LowPrecision) {
    const { shape, numel, requiresGrad, wholeShape, layout } = original;
    super(data, shape, { requiresGrad, wholeShape, layout });
    this.#policy = policy;
    this.#low = new BufferTensor(new Uint16Array(numel), shape, { dtype: policy.parameterDtype });
    this.#storeLow(this.contents);
  }

  override get stored(): Node {
    return this.#low.contents;
  }

  /**
   * As a forward pass reads it: in f32, but where activations have fewer bits, too. Backward passes widen
   * it again, so that no f32 copy is kept for them.
   */
  lowLeaf(): Node {
    const { castForwardInputs = false } = this.#policy;
    if (castForwardInputs) return this.#leafOf(this.#low);
    const region = new RecomputeRegion({ keeps: () => false });
    return region.run(() => this.#leafOf(noGrad(() => this.#low.to('f32'))));
  }

  /** As an optimizer sees it. */
  exactLeaf(): Node {
    return this.#leafOf(this);
  }

  /** A node at which backward ends, of the values of `tensor`. What reads it inside noGrad has no gradient. */
  #leafOf(tensor: Tensor): Node {
    const leaf = tensor.detach().node;
    if (!this.requiresGrad) return leaf;
    leaf.requiresGrad = true;
    leaf.sink = {
      expect: () => this.contents.sink?.expect?.(),
      accumulate: (gradient) => {
        this.#keepReplacement();
        this.contents.sink?.accumulate(this.#narrow(gradient));
      },
    };
    return leaf;
  }

  /** Later passes add to what has taken the gradient's place. */
  #keepReplacement(): void {
    if (this.#replacement === null) return;
    super.setGradientNode(this.#narrow(this.#replacement));
    this.#replacement = null;
  }

  #narrow(gradient: Node): Node {
    const { gradientDtype: dtype } = this.#policy;
    return noGrad(() => new Tensor(gradient).to(dtype)).node;
  }

  override reduceGradient(reduction: GradientReduction): Gradient {
    this.#gradient = super.reduceGradient(reduction);
    return this.#gradient;
  }

  /** In f32. */
  override get gradientNode(): Node | null {
    const kept = this.#replacement ?? super.gradientNode;
    return kept === null ? null : noGrad(() => new Tensor(kept).to('f32')).node;
  }

  /** Is computed where it is read, so that no f32 gradient is kept; but what ranks will reduce is. */
  override setGradientNode(node: Node): void {
    if (this.#gradient?.local.isEmpty === false) super.setGradientNode(this.#narrow(node));
    else this.#replacement = node;
  }

  override zeroGrad(): void {
    super.zeroGrad();
    this.#replacement = null;
  }

  override store(value: Node): this {
    super.store(value);
    this.#storeLow(value);
    return this;
  }

  override dispose(): void {
    super.dispose();
    this.#low.dispose();
  }

  #storeLow(value: Node): void {
    const low = withoutValues(() => noGrad(() => new Tensor(value).to(this.#low.dtype)));
    this.#low.store(low.node);
  }
}
