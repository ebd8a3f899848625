/** A token with the logarithm of its probability. */
export interface TokenProbability {
  readonly token: number;
  readonly logProbability: number;
}

/** The most likely tokens, the most likely one first, and of equal ones the first one. Shape: logProbabilities [V]. */
export function mostLikelyTokens(
  logProbabilities: Float32Array,
  count: number,
): readonly TokenProbability[] {
  const best: TokenProbability[] = [];
  if (count === 0) return best;
  let least = Number.NEGATIVE_INFINITY;
  for (let token = 0; token < logProbabilities.length; token++) {
    const logProbability = logProbabilities[token] ?? 0;
    if (best.length === count && logProbability <= least) continue;
    const behind = best.findIndex((other) => other.logProbability < logProbability);
    best.splice(behind < 0 ? best.length : behind, 0, { token, logProbability });
    if (best.length > count) best.pop();
    least = best.at(-1)?.logProbability ?? least;
  }
  return best;
}
