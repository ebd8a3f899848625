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
