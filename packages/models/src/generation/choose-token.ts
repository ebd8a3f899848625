import type { Generator } from '@shardwise/core/extend';
import { powersOf } from './logits-processors.ts';

/** The token of the highest score, and the first one of equal ones. */
export function mostLikely(scores: Float32Array): number {
  let best = 0;
  for (let token = 1; token < scores.length; token++) {
    if ((scores[token] ?? 0) > (scores[best] ?? 0)) best = token;
  }
  return best;
}

/**
 * Draws a token by its probability, with one number of the generator. Who draws often gives a workspace, which saves an
 * array of the vocabulary's size for each token.
 * Shape: scores, workspace [V].
 */
export function drawToken(
  scores: Float32Array,
  generator: Pick<Generator, 'uniform'>,
  workspace: Float64Array = new Float64Array(scores.length),
): number {
  const whole = powersOf(scores, workspace);
  const [drawn = 0] = generator.uniform(1, 0, 1);
  let sum = 0;
  let last = 0;
  for (let token = 0; token < scores.length; token++) {
    const probability = (workspace[token] ?? 0) / whole;
    if (probability === 0) continue;
    sum += probability;
    last = token;
    if (sum > drawn) return token;
  }
  // The sum of the probabilities may be a little less than 1.
  return last;
}
