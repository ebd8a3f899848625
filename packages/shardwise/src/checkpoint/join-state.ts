import type { HostArray } from '@shardwise/core/extend';
import type { JsonValue, StatePath } from './state-file.ts';

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
