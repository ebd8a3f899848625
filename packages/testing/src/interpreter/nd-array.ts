import { elementCount } from '@shardwise/core/base';
import { BackendError, dtypes } from '@shardwise/core/spec';
import type { DType, Shape, ValueType } from '@shardwise/core/spec';

/** Returns element `i`. Reading outside of `values` throws instead of returning undefined. */
export function at(values: ArrayLike<number>, i: number): number {
  const value = values[i];
  if (value === undefined) throw outside(i, `${values.length} elements`);
  return value;
}

export function byteLength({ shape, dtype }: ValueType): number {
  return elementCount(shape) * dtypes[dtype].bytes;
}

/** Yields every index of a shape. The last dim changes fastest. The yielded array is always the same object. */
export function* indices(shape: Shape): Generator<readonly number[]> {
  const index: number[] = shape.map(() => 0);
  for (let left = elementCount(shape); left > 0; left--) {
    yield index;
    for (let dim = shape.length - 1; dim >= 0; dim--) {
      const next = at(index, dim) + 1;
      index[dim] = next === shape[dim] ? 0 : next;
      if (index[dim] !== 0) break;
    }
  }
}

/**
 * A value of the interpreter. Elements of every dtype are stored in f64, so an op computes in f64. Its result
 * is rounded to the dtype once, when it is complete.
 */
export class NdArray implements ValueType {
  readonly shape: Shape;
  readonly dtype: DType;
  readonly values: Float64Array;
  /** The strides in elements. */
  readonly strides: readonly number[];

  constructor({ shape, dtype }: ValueType, values?: Float64Array) {
    this.shape = shape;
    this.dtype = dtype;
    this.values = values ?? new Float64Array(elementCount(shape));
    this.strides = shape.map((_, dim) => elementCount(shape.slice(dim + 1)));
  }

  indices(): Generator<readonly number[]> {
    return indices(this.shape);
  }

  get(index: readonly number[]): number {
    return at(this.values, this.#offset(index));
  }

  set(index: readonly number[], value: number): void {
    this.values[this.#offset(index)] = value;
  }

  add(index: readonly number[], value: number): void {
    const offset = this.#offset(index);
    this.values[offset] = at(this.values, offset) + value;
  }

  #offset(index: readonly number[]): number {
    let offset = 0;
    for (let dim = 0; dim < this.shape.length; dim++) {
      const i = at(index, dim);
      if (i < 0 || i >= at(this.shape, dim))
        throw outside(i, `dim ${dim} of [${this.shape.join(', ')}]`);
      offset += i * at(this.strides, dim);
    }
    return offset;
  }
}

function outside(i: number, found: string): BackendError {
  return new BackendError(
    { asked: `element ${i}`, found, todo: 'Give an index that is in range' },
    { index: i },
  );
}
