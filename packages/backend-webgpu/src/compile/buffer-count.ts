import type { Program } from '@shardwise/core/spec';
import { bytesOf, type Values } from './values.ts';

/** How many buffers some values take as bindings of a kernel. */
export type BufferCount = (ids: Iterable<number>) => number;

/** Values for which `alike` gives the same number share a buffer. Each takes so many bindings as `bindings` says. */
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
 * Inputs of one word, such as the numbers of a step of an optimizer: a run copies them side by side, so that they are one binding.
 * None where a program updates nothing, or has one of them only.
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
