import type { Shape } from '@shardwise/core/spec';
import type { Access } from '../loop-spec.ts';

export function elementCount(shape: Shape): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

/**
 * How `expand` reads its input. Undefined if a loop over rows cannot read it, because dims in the middle are repeated.
 */
export function expandAccess(from: Shape, to: Shape): Access | undefined {
  if (from.every((dim, i) => dim === to[i])) return { kind: 'element' };
  if (elementCount(from) === 1) return { kind: 'scalar', elementOffset: 0 };
  const isKept = from.map((dim, i) => dim === to[i]);
  const firstRepeated = isKept.indexOf(false);
  const lastRepeated = isKept.lastIndexOf(false);
  const before = from.slice(0, firstRepeated);
  const after = from.slice(lastRepeated + 1);
  const between = from.slice(firstRepeated, lastRepeated + 1);
  if (elementCount(between) !== 1) return undefined;
  if (elementCount(before) === 1) return { kind: 'column', columns: elementCount(after) };
  if (elementCount(after) === 1) {
    return { kind: 'row', columns: elementCount(to.slice(firstRepeated)) };
  }
  return undefined;
}
