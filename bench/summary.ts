/** Times of one contestant, in milliseconds per step: one entry for each round. */
export interface Rounds {
  readonly medianMs: number;
  readonly minMs: number;
  readonly roundsMs: readonly number[];
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Summarizes rounds. `rounds` contains the times of each round's steps, of which the mean counts. */
export function summarize(rounds: readonly (readonly number[])[]): Rounds {
  const roundsMs = rounds.map(mean);
  return {
    medianMs: median(roundsMs),
    minMs: Math.min(...rounds.flat()),
    roundsMs: roundsMs.map((ms) => round(ms, 2)),
  };
}

/**
 * Returns the median over rounds of a / b. Measurements that are close in time are affected alike by the machine's
 * load.
 */
export function pairedRatio(a: Rounds, b: Rounds): number {
  return median(a.roundsMs.map((ms, index) => ms / (b.roundsMs[index] ?? Number.NaN)));
}

export function tokensPerSecond(tokens: number, ms: number): number {
  return (tokens * 1000) / ms;
}

export function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
