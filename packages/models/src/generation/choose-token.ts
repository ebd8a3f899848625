import type { Generator } from '@shardwise/core/extend';
import { softmax } from './logits-processors.ts';

/** The token of the highest score, and the first one of equal ones. */
export function mostLikely(scores: Float32Array): number {
  let best = 0;
  for (let token = 1; token < scores.length; token++) {
    if ((scores[token] ?? 0) > (scores[best] ?? 0)) best = token;
  }
  return best;
}

/** Draws a token by its probability, with one number of the generator. */
export function drawToken(scores: Float32Array, generator: Pick<Generator, 'uniform'>): number {
  const probabilities = softmax(scores);
  const [drawn = 0] = generator.uniform(1, 0, 1);
  let sum = 0;
  let last = 0;
  for (let token = 0; token < probabilities.length; token++) {
    const probability = probabilities[token] ?? 0;
    if (probability === 0) continue;
    sum += probability;
    last = token;
    if (sum > drawn) return token;
  }
  // The sum of the probabilities may be a little less than 1.
  return last;
}
