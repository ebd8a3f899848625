import {
  allGather,
  BufferTensor,
  elementCount,
  type HostData,
  type LowPrecision,
  type Node,
  noGrad,
  type Shape,
  Tensor,
} from '@shardwise/core/extend';
import { ShardedPart, type ShardedPartOptions } from './sharded-part.ts';

export interface MixedPrecisionPartOptions extends ShardedPartOptions {
  readonly lowPrecision: LowPrecision;
  /** Whether each rank stores its part of the low-precision values, or all of them. */
  readonly stores: 'part' | 'whole';
  /** Whether each rank keeps its part of the gradient, or its own whole one until the step. */
  readonly keepsGradient: 'part' | 'whole';
}

/**
 * Its f32 part is what an optimizer, clipping and checkpoints see; what forward and backward read,
 * and what they leave, is stored and sent in fewer bits.
 */
export class MixedPrecisionPart extends ShardedPart {
  readonly #low: Tensor;
  readonly #options: MixedPrecisionPartOptions;

  /** `data` is this rank's part, of shape `shape`, in f32. The first realization is a collective. */
  constructor(data: HostData, shape: Shape, options: MixedPrecisionPartOptions) {
    super(data, shape, options);
    this.#options = options;
    const { stores, lowPrecision } = options;
    const storedShape = stores === 'part' ? shape : this.paddedShape;
    const bits = new Uint16Array(elementCount(storedShape));
    this.#low = new BufferTensor(bits, storedShape, { dtype: lowPrecision.parameterDtype });
    this.#storeLow(new Tensor(this.contents));
  }

  override get stored(): Node {
    return this.#low.contents;
  }

  override collect(): Node {
    if (this.#options.stores === 'whole') return this.#low.node;
    return noGrad(() => allGather(this.#low, this.axis, 0)).node;
  }

  override collectExact(): Node {
    return noGrad(() => allGather(this, this.axis, 0)).node;
  }

  /** In f32, but where activations have fewer bits, too. Shape: padded -> whole. */
  override wholeFrom(padded: Node): Node {
    const { castForwardInputs = false } = this.#options.lowPrecision;
    if (castForwardInputs) return super.wholeFrom(padded);
    return super.wholeFrom(noGrad(() => new Tensor(padded).to('f32')).node);
  }

  /** In f32, of the part. */
  override get gradientNode(): Node | null {
    const kept = super.gradientNode;
    return kept === null ? null : noGrad(() => new Tensor(kept).to('f32')).node;
  }

  protected override get keepsWholeGradient(): boolean {
    return this.#options.keepsGradient === 'whole';
  }

  /** So that no f32 gradient is kept. */
  protected override get replacesLate(): boolean {
    return true;
  }

  protected override narrow(gradient: Node): Node {
    const { gradientDtype: dtype } = this.#options.lowPrecision;
    return noGrad(() => new Tensor(gradient).to(dtype)).node;
  }

  /** Shape: value of this rank's part. */
  override store(value: Node): this {
    super.store(value);
    this.#storeLow(new Tensor(value));
    return this;
  }

  override dispose(): void {
    super.dispose();
    this.#low.dispose();
  }

  #storeLow(part: Tensor): void {
    noGrad(() => {
      const low = part.to(this.#low.dtype);
      const { node } = this.#options.stores === 'part' ? low : allGather(low, this.axis, 0);
      this.#low.store(node);
    });
  }
}
