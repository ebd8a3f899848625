import {
  BufferTensor,
  elementCount,
  type LowPrecision,
  type Node,
  noGrad,
  type Shape,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';

export interface LowPrecisionValuesOptions {
  readonly policy: LowPrecision;
  /** The shape of what is kept. */
  readonly shape: Shape;
  /** Makes what is kept of this rank's values, which have fewer bits already. Default: just these. */
  readonly complete?: (values: Tensor) => Tensor;
}

/** What a rank keeps in fewer bits of values that an optimizer updates in f32; forward passes read it. */
export class LowPrecisionValues {
  readonly kept: Tensor;
  /** Whether forward passes compute with it in f32, as their activations are. */
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

  /** Rounds this rank's values, which are f32. */
  store(values: Node): void {
    const rounded = withoutValues(() =>
      noGrad(() => this.#complete(new Tensor(values).to(this.kept.dtype))),
    );
    this.kept.store(rounded.node);
  }

  /** As forward passes read it. Shape: N -> N. */
  read(values: Node): Node {
    return this.isWidened ? noGrad(() => new Tensor(values).to('f32')).node : values;
  }

  /** As a gradient is kept and reduced. Shape: N -> N. */
  narrow(gradient: Node): Node {
    const { gradientDtype: dtype } = this.#policy;
    return noGrad(() => new Tensor(gradient).to(dtype)).node;
  }

  /** As an optimizer reads a gradient that is kept. Shape: N -> N. */
  widen(gradient: Node): Node {
    return noGrad(() => new Tensor(gradient).to('f32')).node;
  }

  dispose(): void {
    this.kept.dispose();
  }
}
