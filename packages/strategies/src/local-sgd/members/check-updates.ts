import type { MemberUpdate, RefusedUpdate } from './members.ts';
import { tokenCount } from './weighted-update.ts';

/** An update as values. Shape: vector [n]. */
export interface DecodedUpdate extends MemberUpdate {
  readonly vector: Float32Array;
  /** The number of tokens that it was learned from, as its member says. 1 if they are not counted. */
  readonly tokens: number;
}

/** An update counts with at most so many times the median norm, and so many times the median tokens, of its round. */
const MAX_RATIO = 10;

/**
 * Divides the updates of a round into those that can be used, and those that cannot: with a value that is not finite, with
 * a number of tokens that is none, or with a norm of more than ten times the median. A fast member may stay: a norm that is
 * no more than its tokens explain is scaled to ten times the median, and its tokens count as at most ten times theirs. So
 * whoever says too many gains no more than that. All members compute the same from the same updates.
 */
export function checkUpdates(updates: readonly DecodedUpdate[]): {
  readonly used: readonly DecodedUpdate[];
  readonly refused: readonly RefusedUpdate[];
} {
  const measured = updates.map((update) => ({ update, norm: normOf(update.vector) }));
  const mostNorm = MAX_RATIO * lowerMedian(measured.map(({ norm }) => norm).filter(isNorm));
  const counted = measured.filter(({ update }) => tokenCount.fits(update.tokens));
  const mostTokens = MAX_RATIO * lowerMedian(counted.map(({ update }) => update.tokens));
  // The ratio of each member, and not that of two medians, which can be those of different members.
  const mostPerToken =
    MAX_RATIO *
    lowerMedian(
      counted.filter(({ norm }) => isNorm(norm)).map(({ update, norm }) => norm / update.tokens),
    );
  const used: DecodedUpdate[] = [];
  const refused: RefusedUpdate[] = [];
  for (const { update, norm } of measured) {
    const { number, name, tokens, vector } = update;
    const refuse = (reason: string): void => void refused.push({ number, name, reason });
    if (!Number.isFinite(norm)) refuse('values that are not finite');
    else if (!tokenCount.fits(tokens)) refuse('a number of tokens that is none');
    else if (norm > mostNorm && norm / tokens > mostPerToken) {
      refuse(`a norm of ${norm.toPrecision(3)}, above ${MAX_RATIO} times the median`);
    } else {
      used.push({
        ...update,
        tokens: Math.min(tokens, mostTokens),
        vector: norm > mostNorm ? vector.map((value) => value * (mostNorm / norm)) : vector,
      });
    }
  }
  return { used, refused };
}

/** NaN or infinite if a value is. */
function normOf(vector: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < vector.length; at++) sum += (vector[at] ?? 0) ** 2;
  return Math.sqrt(sum);
}

function isNorm(norm: number): boolean {
  return norm > 0 && norm < Infinity;
}

/** Of an even number, the smaller one of the two in the middle: one of two may be a stranger's. */
function lowerMedian(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.ceil(sorted.length / 2) - 1] ?? 0;
}
