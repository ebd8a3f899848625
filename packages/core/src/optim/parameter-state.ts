import { inputNode } from '../graph/node.ts';
import { hostArray, type HostArray } from '../serialization/host-array.ts';
import { elementCount, formatShape, sameShape } from '../shape.ts';
import { dtypes, type ValueType } from '../spec/dtype.ts';
import { CheckpointError } from '../spec/errors.ts';
import { toBytes } from '../tensor/host-data.ts';
import { Tensor } from '../tensor/tensor.ts';

/** What an optimizer keeps of one parameter: how often it was updated, and tensors of its shape. */
export class ParameterState {
  steps = 0;
  readonly #typeOf: (name: string) => ValueType;
  readonly #tensors = new Map<string, Tensor>();

  /** `typeOf` says what a tensor of a name is; by default it is as the parameter. */
  constructor(typeOf: (name: string) => ValueType) {
    this.#typeOf = typeOf;
  }

  /** The tensor of a name, zeros before it is assigned to. */
  tensor(name: string): Tensor {
    const known = this.#tensors.get(name);
    if (known !== undefined) return known;
    const { shape, dtype } = this.#typeOf(name);
    const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
    return this.#keep(name, { shape, dtype, bytes });
  }

  /** All that have been asked for, by name. */
  get tensors(): ReadonlyMap<string, Tensor> {
    return this.#tensors;
  }

  /** Tensors on the host under PyTorch's names; `step` is an f32 scalar, as there. */
  async read(): Promise<Record<string, HostArray>> {
    const arrays: Record<string, HostArray> = {
      step: hostArray('f32', [], toBytes(Float32Array.of(this.steps))),
    };
    for (const [name, tensor] of this.#tensors) {
      const bytes = toBytes(await tensor.data()).slice();
      arrays[name] = hostArray(tensor.dtype, tensor.shape, bytes);
    }
    return arrays;
  }

  /** Throws CheckpointError for a tensor that is not of its type. */
  static from(
    typeOf: (name: string) => ValueType,
    arrays: Readonly<Record<string, HostArray>>,
  ): ParameterState {
    const state = new ParameterState(typeOf);
    const { step, ...tensors } = arrays;
    for (const [name, array] of Object.entries(tensors)) state.#load(name, array);
    // PyTorch's SGD keeps no count; what has a momentum has taken a step.
    state.steps = step === undefined ? Math.min(1, state.#tensors.size) : stepCount(step);
    return state;
  }

  /** Frees the device memory. */
  dispose(): void {
    for (const tensor of this.#tensors.values()) tensor.dispose();
  }

  #load(name: string, array: HostArray): void {
    const { shape, dtype } = this.#typeOf(name);
    const byteLength = elementCount(shape) * dtypes[dtype].bytes;
    if (
      array.dtype !== dtype ||
      !sameShape(array.shape, shape) ||
      array.bytes.byteLength !== byteLength
    ) {
      throw new CheckpointError(
        {
          asked: `load ${name} of shape ${formatShape(shape)} (${dtype}, ${byteLength} bytes)`,
          found: `shape ${formatShape(array.shape)} (${array.dtype}, ${array.bytes.byteLength} bytes)`,
          todo: 'Load the state of an optimizer of the same model',
        },
        { name, shape, found: array.shape },
      );
    }
    this.#keep(name, { ...array, bytes: array.bytes.slice() });
  }

  #keep(name: string, { shape, dtype, bytes }: HostArray): Tensor {
    const tensor = new Tensor(
      inputNode(shape, dtype, { kind: 'host', bytes, owned: true }),
    ).makeResident();
    this.#tensors.set(name, tensor);
    return tensor;
  }
}

function stepCount(step: HostArray): number {
  const { byteLength } = step.bytes;
  const value =
    step.dtype === 'f32' && byteLength === 4
      ? new DataView(step.bytes.buffer, step.bytes.byteOffset, 4).getFloat32(0, true)
      : Number.NaN;
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new CheckpointError(
    {
      asked: 'load the step of a parameter',
      found: `a ${step.dtype} of ${byteLength} bytes (${value})`,
      todo: 'Use an f32 scalar that counts steps',
    },
    { dtype: step.dtype, byteLength },
  );
}
