import { expandTo } from '../graph/ops/movement.ts';
import type { Shape } from '../spec/dtype.ts';
import { fromData } from '../tensor/create.ts';
import { Tensor } from '../tensor/tensor.ts';

/**
 * A number that an update rule uses in one step. It is a leaf, so that steps with different numbers run the same plan.
 * It is broadcast once for each shape, whatever the number of parameters.
 */
export class Scalar {
  readonly #leaf: Tensor;
  readonly #shaped = new Map<string, Tensor>();

  constructor(value: number) {
    this.#leaf = fromData(Float32Array.of(value), [], 'f32');
  }

  /** The number, broadcast to a shape. Shape: -> shape. */
  of(shape: Shape): Tensor {
    const key = shape.join();
    const known = this.#shaped.get(key);
    if (known !== undefined) return known;
    const shaped = new Tensor(expandTo(this.#leaf.node, shape));
    this.#shaped.set(key, shaped);
    return shaped;
  }
}
