import type { Program } from '@shardwise/core/spec';
import { bytesOf, type Values } from '../program/values.ts';

/** The number of bindings that some values take in a kernel. */
export type BufferCount = (ids: Iterable<number>) => number;

/**
 * Counts bindings. Values for which `alike` gives the same number share a buffer. `bindings` says how many bindings a
 * value takes.
 */
export function bufferCount(
  alike: (id: number) => number,
  bindings: (id: number) => number,
): BufferCount {
  return (ids) => {
    const found = new Map([...ids].map((id) => [alike(id), bindings(id)]));
    return [...found.values()].reduce((sum, count) => sum + count, 0);
  };
}

/**
 * Inputs of one word, such as the numbers of an optimizer's step, with their positions. A run copies them side by side
 * first, so that they take one binding. Empty if the program updates nothing, or if there is only one such input.
 */
export function gatheredInputs(
  values: Values,
  updates: Program['updates'],
): ReadonlyMap<number, number> {
  const targets = new Set(updates.map(({ target }) => target));
  const single = Array.from({ length: values.inputCount }, (_, id) => id).filter(
    (id) => bytesOf(values.type(id)) === 4 && !targets.has(id),
  );
  if (updates.length === 0 || single.length < 2) return new Map();
  return new Map(single.map((id, position) => [id, position]));
}
