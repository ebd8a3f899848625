import { inputNode } from '../graph/create-node.ts';
import type { HostArray } from '../serialization/host-array.ts';
import { elementCount } from '../base/shape.ts';
import { dtypes } from '../spec/dtype.ts';
import { Tensor } from '../tensor/tensor.ts';
import type { StateType } from './state-type.ts';

/** The state of one parameter in an optimizer: the number of its updates, and tensors. */
export class ParameterState {
  steps = 0;
  readonly #typeOf: (name: string) => StateType;
  readonly #tensors = new Map<string, Tensor>();

  /** `typeOf` returns the type of the tensor with a name. */
  constructor(typeOf: (name: string) => StateType) {
    this.#typeOf = typeOf;
  }

  /** The tensor with this name. It is zeros until it is assigned. */
  tensor(name: string): Tensor {
    const known = this.#tensors.get(name);
    if (known !== undefined) return known;
    const { shape, dtype } = this.#typeOf(name);
    const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
    return this.set(name, { shape, dtype, bytes });
  }

  /** The tensors that rules have asked for, by name. */
  get tensors(): ReadonlyMap<string, Tensor> {
    return this.#tensors;
  }

  /** Keeps the array as the tensor with this name. */
  set(name: string, { shape, dtype, bytes }: HostArray): Tensor {
    const tensor = new Tensor(
      inputNode(shape, dtype, { kind: 'host', bytes, owned: true }),
    ).makeResident();
    this.#tensors.set(name, tensor);
    return tensor;
  }

  /** Frees the device memory. */
  dispose(): void {
    for (const tensor of this.#tensors.values()) tensor.dispose();
  }
}
