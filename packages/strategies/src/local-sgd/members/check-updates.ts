import type { MemberUpdate, RefusedUpdate } from './members.ts';

/** An update as values. Shape: vector [n]. */
export interface DecodedUpdate extends MemberUpdate {
  readonly vector: Float32Array;
}

/** An update may have so many times the median norm of all updates of its round. */
const MAX_NORM_RATIO = 10;

/**
 * Divides the updates of a round into those that can be used, and those that cannot: with a value that is not finite, or
 * with a norm of more than ten times the median. All members compute the same from the same updates.
 */
export function checkUpdates(updates: readonly DecodedUpdate[]): {
  readonly used: readonly DecodedUpdate[];
  readonly refused: readonly RefusedUpdate[];
} {
  const measured = updates.map((update) => ({ update, own: norm(update.vector) }));
  const known = measured.flatMap(({ own }) => (own > 0 && own < Infinity ? [own] : []));
  const most = MAX_NORM_RATIO * lowerMedian(known);
  const used: DecodedUpdate[] = [];
  const refused: RefusedUpdate[] = [];
  for (const { update, own } of measured) {
    const { number, name } = update;
    if (!Number.isFinite(own)) refused.push({ number, name, reason: 'values that are not finite' });
    else if (own > most) {
      const reason = `a norm of ${own.toPrecision(3)}, above ${MAX_NORM_RATIO} times the median`;
      refused.push({ number, name, reason });
    } else used.push(update);
  }
  return { used, refused };
}

/** NaN or infinite if a value is. */
function norm(vector: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < vector.length; at++) sum += (vector[at] ?? 0) ** 2;
  return Math.sqrt(sum);
}

/** Of an even number, the smaller one of the two in the middle: one of two may be a stranger's. */
function lowerMedian(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.ceil(sorted.length / 2) - 1] ?? 0;
}
