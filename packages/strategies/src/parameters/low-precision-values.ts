import {
  BufferTensor,
  elementCount,
  type LowPrecision,
  type Node,
  noGrad,
  type PartCopy,
  type Shape,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';

export interface LowPrecisionValuesOptions {
  readonly policy: LowPrecision;
  /** The shape of the kept values. */
  readonly shape: Shape;
  /** Makes the kept values from this rank's values, which have fewer bits already. Default: keeps just these. */
  readonly complete?: (values: Tensor) => Tensor;
}

/** The low-precision copy of values that an optimizer updates in f32. Forward passes read the copy. */
export class LowPrecisionValues implements PartCopy {
  readonly kept: Tensor;
  /** Whether forward passes convert the values to f32, because their activations are f32. */
  readonly isWidened: boolean;
  readonly #policy: LowPrecision;
  readonly #complete: (values: Tensor) => Tensor;

  constructor({ policy, shape, complete = (values) => values }: LowPrecisionValuesOptions) {
    const bits = new Uint16Array(elementCount(shape));
    this.kept = new BufferTensor(bits, shape, { dtype: policy.parameterDtype });
    this.isWidened = policy.castForwardInputs !== true;
    this.#policy = policy;
    this.#complete = complete;
  }

  /** Stores this rank's f32 values after rounding them. */
  store(values: Node): void {
    const rounded = withoutValues(() =>
      noGrad(() => this.#complete(new Tensor(values).to(this.kept.dtype))),
    );
    this.kept.store(rounded.node);
  }

  /** Returns the values in the dtype in which forward passes read them. Shape: N -> N. */
  read(values: Node): Node {
    return this.isWidened ? noGrad(() => new Tensor(values).to('f32')).node : values;
  }

  /** Returns a gradient in the dtype in which it is kept and reduced. Shape: N -> N. */
  narrow(gradient: Node): Node {
    const { gradientDtype: dtype } = this.#policy;
    return noGrad(() => new Tensor(gradient).to(dtype)).node;
  }

  /** Returns a kept gradient as an optimizer reads it, in f32. Shape: N -> N. */
  widen(gradient: Node): Node {
    return noGrad(() => new Tensor(gradient).to('f32')).node;
  }

  dispose(): void {
    this.kept.dispose();
  }
}
