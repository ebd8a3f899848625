import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Gate } from './gate.ts';
import type { Capacity } from './limit-routes.ts';
import { makeTopKGate } from './top-k-gate.ts';

/** Options of `switchGate`. */
export interface SwitchGateOptions {
  /** The capacity of the experts. Default: no route is dropped. */
  readonly capacity?: Capacity;
  /**
   * In training, the input of the router is multiplied by random numbers between 1 - jitter and 1 + jitter.
   * Default: 0.
   */
  readonly jitter?: number;
  /**
   * Whether, in training, a token's expert is drawn by its probability instead of taking the best one. Default:
   * false.
   */
  readonly gumbel?: boolean;
}

const switchRules: OptionRules<SwitchGateOptions> = {
  capacity: option.object('a capacity'),
  jitter: option.fraction,
  gumbel: option.flag,
};

/** Each token goes to one expert, whose result is multiplied by its probability (Fedus et al. 2021, "Switch"). */
export function switchGate(options: SwitchGateOptions = {}): Gate {
  checkOptions('switchGate', options, switchRules);
  const { gumbel = false, ...others } = options;
  return makeTopKGate('switchGate', { ...others, k: 1, noise: gumbel ? 'all' : 'none' });
}

/** Options of `gshardGate`. */
export interface GShardGateOptions {
  /**
   * The capacity of the experts. First choices always come before second ones. Default: no route is dropped for lack of
   * capacity.
   */
  readonly capacity?: Omit<Capacity, 'firstChoicesFirst'>;
}

const gshardRules: OptionRules<GShardGateOptions> = { capacity: option.object('a capacity') };

/**
 * Each token goes to two experts, whose weights sum to 1. In training the second expert is left out at random, more
 * often if its weight is small (Lepikhin et al. 2020, "GShard").
 */
export function gshardGate(options: GShardGateOptions = {}): Gate {
  checkOptions('gshardGate', options, gshardRules);
  const { capacity } = options;
  return makeTopKGate('gshardGate', {
    k: 2,
    normalize: 'chosen',
    randomSecond: true,
    ...(capacity === undefined ? {} : { capacity: { ...capacity, firstChoicesFirst: true } }),
  });
}
