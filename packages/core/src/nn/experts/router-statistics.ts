import { concat } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { Routing } from './gate.ts';

/** The statistics of the router of a layer in one pass. */
export interface RouterStatistics {
  /** The share of each expert in all kept routes. */
  readonly load: readonly number[];
  /** The largest load times the number of experts. It is 1 if all experts have the same number of routes. */
  readonly imbalance: number;
  /** The share of routes that were dropped. */
  readonly dropRate: number;
  /** The mean entropy of tokens' shares, divided by that of equal shares: from 0 to 1. */
  readonly entropy: number;
}

/** The statistics of a pass as one small value. Shape: counts i32 [E], shares [T, E] -> f32 [E + 2]. */
export function observe({ experts, shares }: Routing, counts: Tensor): Tensor {
  const [, count = 1] = shares.shape;
  const routes = Math.max(experts.numel, 1);
  const kept = counts.to('f32');
  const logs = shares.maximum(1e-30).log();
  const entropy = shares
    .mul(logs)
    .sum([1])
    .mean()
    .div(-Math.log(Math.max(count, 2)));
  const total = kept.sum();
  const dropRate = total.div(-routes).add(1);
  return concat([kept.div(total.maximum(1)), dropRate.reshape([1]), entropy.reshape([1])], 0);
}

/** Converts the value of `observe` to statistics. */
export function readStatistics(observed: readonly number[]): RouterStatistics {
  const load = observed.slice(0, -2);
  const [dropRate = 0, entropy = 0] = observed.slice(-2);
  return { load, imbalance: Math.max(...load) * load.length, dropRate, entropy };
}
