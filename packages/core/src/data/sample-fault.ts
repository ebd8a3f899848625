import { elementCount, formatShape } from '../base/shape.ts';
import { describeValue } from '../spec/errors.ts';
import { isDType } from '../spec/dtype.ts';
import { type HostData, holds } from '../tensor/host-data.ts';
import { Tensor } from '../tensor/tensor.ts';

/**
 * Says what is wrong with a sample that a dataset returned. Undefined for arrays, and for lists and records of them.
 */
export function sampleFault(value: unknown, path: string): string | undefined {
  const at = path === '' ? '' : ` at ${path}`;
  if (value instanceof Tensor) return `a tensor${at}, which belongs to one rank and one thread`;
  if (typeof value !== 'object' || value === null) return `${describeValue(value)}${at}`;
  if (ArrayBuffer.isView(value)) return `${describeValue(value)}${at}, without a shape`;
  if (Array.isArray(value)) {
    const [first] = value;
    if (value.length === 0 || typeof first === 'number') return `${describeValue(value)}${at}`;
  } else if ('data' in value && 'shape' in value && 'dtype' in value) {
    const fault = arrayFault(value.data, value.shape, value.dtype);
    return fault === undefined ? undefined : `${fault}${at}`;
  } else if (!isPlain(value)) return `${describeValue(value)}${at}`;
  const parts: (readonly [string, unknown])[] = Object.entries(value);
  if (parts.length === 0) return `an object without arrays${at}`;
  for (const [name, part] of parts) {
    const fault = sampleFault(part, path === '' ? name : `${path}.${name}`);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** Says what is wrong with an array that was not made by ndArray. Undefined if nothing is. */
function arrayFault(data: unknown, shape: unknown, dtype: unknown): string | undefined {
  if (typeof dtype !== 'string' || !isDType(dtype))
    return `an array of the dtype ${describeValue(dtype)}`;
  if (!isHostData(data) || !holds(data, dtype))
    return `an array of ${dtype} in ${describeValue(data)}`;
  const sizes: unknown[] = Array.isArray(shape) ? shape : [];
  const dims = sizes.filter((size) => typeof size === 'number');
  if (!Array.isArray(shape) || dims.length !== sizes.length) {
    return `an array of the shape ${describeValue(shape)}`;
  }
  const count = elementCount(dims);
  if (count === data.length) return undefined;
  return `an array of shape ${formatShape(dims)} (${count} elements) with ${data.length} elements`;
}

function isHostData(value: unknown): value is HostData {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
