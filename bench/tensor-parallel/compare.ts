import { round } from '../summary.ts';
import type { RankMemory } from './messages.ts';

/** Measured bytes, and those of a formula. */
export interface Comparison {
  readonly bytes: number;
  readonly formulaBytes: number;
  readonly ratio: number;
}

const TOLERANCE = 0.02;

/** Throws if the two differ by more than 2 %. */
export function compare(what: string, bytes: number, formulaBytes: number): Comparison {
  const ratio = bytes / formulaBytes;
  if (!(Math.abs(ratio - 1) <= TOLERANCE)) {
    throw new Error(`${what}: ${bytes} bytes, and the formula says ${formulaBytes}`);
  }
  return { bytes, formulaBytes, ratio: round(ratio, 4) };
}

/**
 * The memory of one layer. It is the difference between two depths, so that everything that does not belong to the
 * layers, or does not last, cancels out.
 */
export interface LayerMemory {
  readonly parameterBytes: number;
  readonly optimizerBytes: number;
  readonly activationBytes: number;
}

/**
 * Returns the memory of one layer. `deep` has `layers` more layers than `shallow`. The activations are the peak without
 * the states.
 */
export function layerMemory(shallow: RankMemory, deep: RankMemory, layers: number): LayerMemory {
  const more = (of: (rank: RankMemory) => number): number => (of(deep) - of(shallow)) / layers;
  return {
    parameterBytes: more((rank) => rank.parameterBytes),
    optimizerBytes: more((rank) => rank.optimizerBytes),
    activationBytes: more(
      (rank) => rank.peakBytes - rank.parameterBytes - rank.gradientBytes - rank.optimizerBytes,
    ),
  };
}

export function describe({ bytes, formulaBytes, ratio }: Comparison): string {
  return `${mebibytes(bytes)} (formula ${mebibytes(formulaBytes)}, ratio ${ratio})`;
}

export function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(2)} MiB`;
}
