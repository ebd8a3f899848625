import {
  CheckpointError,
  dtypes,
  elementCount,
  type HostArray,
  isDType,
} from '@shardwise/core/extend';
import type { JsonValue, StatePath } from './index-file.ts';

/** The limit of nesting. A state that is deeper is taken for a cycle. */
const MAX_DEPTH = 64;

export interface SplitState {
  /** The state, with null in the place of each tensor. */
  readonly value: JsonValue;
  readonly tensors: readonly { readonly path: StatePath; readonly array: HostArray }[];
}

/**
 * Takes the tensors out of a state, and copies the rest. Throws a CheckpointError that names `owner` and the place if
 * something is neither JSON nor a HostArray.
 */
export function splitState(owner: string, state: unknown): SplitState {
  const tensors: { path: StatePath; array: HostArray }[] = [];
  const visit = (value: unknown, path: StatePath): JsonValue => {
    if (path.length > MAX_DEPTH) throw unsaved(owner, path, `${MAX_DEPTH} levels below each other`);
    if (isHostArray(value)) {
      tensors.push({ path, array: value });
      return null;
    }
    if (Array.isArray(value)) {
      return value.map((each: unknown, index) => visit(each, [...path, index]));
    }
    if (isPlainObject(value)) {
      const entries = Object.entries(value).filter(([, each]) => each !== undefined);
      return Object.fromEntries(entries.map(([key, each]) => [key, visit(each, [...path, key])]));
    }
    if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    throw unsaved(owner, path, describe(value));
  };
  return { value: visit(state, []), tensors };
}

/** Whether a value is a HostArray whose bytes fit its shape. */
export function isHostArray(value: unknown): value is HostArray {
  if (typeof value !== 'object' || value === null) return false;
  if (!('dtype' in value && 'shape' in value && 'bytes' in value)) return false;
  const { dtype, shape, bytes } = value;
  if (typeof dtype !== 'string' || !isDType(dtype)) return false;
  if (!Array.isArray(shape) || !(bytes instanceof Uint8Array)) return false;
  const dims: readonly unknown[] = shape;
  const sizes = dims.filter((dim): dim is number => Number.isSafeInteger(dim));
  const isWhole = bytes.byteLength === elementCount(sizes) * dtypes[dtype].bytes;
  return sizes.length === dims.length && isWhole;
}

export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function describe(value: unknown): string {
  if (typeof value === 'object' && value !== null) return `a ${value.constructor.name}`;
  return typeof value === 'number' ? String(value) : `a ${typeof value}`;
}

function unsaved(owner: string, path: StatePath, found: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `to save the state of "${owner}"`,
      found: `${found} at ${path.length === 0 ? 'its top' : `"${path.join('.')}"`}`,
      todo: 'Give what JSON keeps, and in states of stateDict() tensors as { dtype, shape, bytes }',
    },
    { owner, path: path.join('.') },
  );
}

/** A state with its tensors in their places, as stateDict returned it. */
export type JoinedState =
  | HostArray
  | string
  | number
  | boolean
  | null
  | readonly JoinedState[]
  | { readonly [key: string]: JoinedState };

/** Puts tensors back to the places from which splitState took them. Returns undefined if a tensor has no place. */
export function joinState(
  value: JsonValue,
  tensors: readonly { readonly path: StatePath; readonly array: HostArray }[],
): JoinedState | undefined {
  const left = new Map(tensors.map(({ path, array }) => [JSON.stringify(path), array]));
  const visit = (each: JsonValue, path: StatePath): JoinedState => {
    const key = JSON.stringify(path);
    const array = left.get(key);
    if (array !== undefined && each === null) {
      left.delete(key);
      return array;
    }
    if (Array.isArray(each)) return each.map((item, index) => visit(item, [...path, index]));
    if (typeof each !== 'object' || each === null) return each;
    return Object.fromEntries(
      Object.entries(each).map(([name, item]) => [name, visit(item, [...path, name])]),
    );
  };
  const joined = visit(value, []);
  return left.size === 0 ? joined : undefined;
}
