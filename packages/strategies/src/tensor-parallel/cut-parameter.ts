import {
  DividedParameter,
  type Node,
  noGrad,
  type ParameterPart,
  type Shape,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';

/**
 * A parameter of whose layer each rank computes a part: within the forward pass of the layer it stands for
 * this rank's part, and elsewhere for the whole, which the ranks are taken to use all alike.
 */
export abstract class CutParameter extends DividedParameter {
  readonly #part: ParameterPart;
  #layers = 0;

  constructor(part: ParameterPart) {
    super(part.extent.shape, part);
    this.#part = part;
  }

  override get part(): ParameterPart {
    return this.#part;
  }

  override get node(): Node {
    this.checkNotReplaced();
    return this.seen(this.#part.node);
  }

  override get shape(): Shape {
    return this.#layers > 0 ? this.#part.shape : super.shape;
  }

  /** What expressions read, of an expression of the part. Shape: part -> part or whole. */
  seen(part: Node): Node {
    return this.#layers > 0 ? part : withoutValues(() => this.join(new Tensor(part))).node;
  }

  override wholeOf(part: Tensor): Tensor {
    return noGrad(() => this.join(part));
  }

  /** Its gradient is each rank's part of that of the whole, which all have alike. Shape: part -> whole. */
  protected abstract join(part: Tensor): Tensor;

  /** It stands for the part until `leaveLayer`; see `inLayer`. */
  enterLayer(): void {
    this.#layers++;
  }

  leaveLayer(): void {
    this.#layers--;
  }
}
