import { type Generator, TensorStateError } from '@shardwise/core/extend';
import { expNegative, maximum } from './powers.ts';

/** A draw finds the block of its token by the sums of blocks, and then the token in it. */
const BLOCK = 256;

/** The token of the highest score, and the first one of equal ones. Throws TensorStateError for scores that are no numbers. */
export function mostLikely(scores: Float32Array): number {
  let best = 0;
  for (let token = 1; token < scores.length; token++) {
    if ((scores[token] ?? 0) > (scores[best] ?? 0)) best = token;
  }
  if (Number.isNaN(scores[best])) throw noNumbers();
  return best;
}

/**
 * Draws a token by its probability, with one number of the generator. Throws TensorStateError for scores that are no numbers.
 * Shape: scores [V].
 */
export function drawToken(scores: Float32Array, generator: Pick<Generator, 'uniform'>): number {
  const most = maximum(scores);
  const powerOf = (token: number): number => expNegative((scores[token] ?? 0) - most);
  const sums = new Float64Array(Math.ceil(scores.length / BLOCK));
  let whole = 0;
  for (let block = 0; block < sums.length; block++) {
    const end = Math.min(scores.length, (block + 1) * BLOCK);
    let sum = 0;
    for (let token = block * BLOCK; token < end; token++) sum += powerOf(token);
    sums[block] = sum;
    whole += sum;
  }
  if (Number.isNaN(whole)) throw noNumbers();
  const [drawn = 0] = generator.uniform(1, 0, 1);
  const goal = drawn * whole;
  let before = 0;
  for (const [block, sum] of sums.entries()) {
    if (before + sum <= goal) {
      before += sum;
      continue;
    }
    const end = Math.min(scores.length, (block + 1) * BLOCK);
    for (let token = block * BLOCK; token < end; token++) {
      before += powerOf(token);
      if (before > goal) return token;
    }
  }
  // The sums of single tokens may be a little less than those of blocks.
  let last = scores.length - 1;
  while (powerOf(last) === 0) last--;
  return last;
}

function noNumbers(): TensorStateError {
  return new TensorStateError({
    asked: 'the next token of a text',
    found: 'scores that are NaN or infinite, from which no token can be chosen',
    todo: 'Check that the weights are finite, and that the dtype of the model has room for its activations',
  });
}
