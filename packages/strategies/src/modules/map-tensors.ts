import { Tensor } from '@shardwise/core/extend';

/** Replaces each tensor in arrays and plain objects. Other values stay. */
export function mapTensors<T>(value: T, map: (tensor: Tensor) => Tensor): T;
export function mapTensors(value: unknown, map: (tensor: Tensor) => Tensor): unknown {
  if (value instanceof Tensor) return map(value);
  if (Array.isArray(value)) return value.map((each: unknown) => mapTensors(each, map));
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, mapTensors<unknown>(each, map)]),
  );
}

/** Visits each tensor in arrays and plain objects. */
export function forEachTensor(value: unknown, visit: (tensor: Tensor) => void): void {
  if (value instanceof Tensor) visit(value);
  else if (Array.isArray(value)) for (const each of value) forEachTensor(each, visit);
  else if (isPlainObject(value)) {
    for (const each of Object.values(value)) forEachTensor(each, visit);
  }
}

function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
