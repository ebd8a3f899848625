import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { indices } from '../../tensor/create-ranges.ts';
import type { Gate } from './gate.ts';
import { checkExperts, repeated } from './top-k-gate.ts';

/** Options of `roundRobinGate`. */
export interface RoundRobinGateOptions {
  /** The number of experts of each token. Default: 2. */
  readonly k?: number;
}

const roundRobinRules: OptionRules<RoundRobinGateOptions> = { k: option.integer(1) };

/**
 * Gives all experts the same number of tokens. This is for measurements. The router decides only about their weights.
 * Choice j of token i is expert (i k + j) modulo the number of experts.
 */
export function roundRobinGate(options: RoundRobinGateOptions = {}): Gate {
  checkOptions('roundRobinGate', options, roundRobinRules);
  const { k = 2 } = options;
  return {
    name: 'roundRobinGate',
    k,
    jitter: 0,
    takesBias: false,
    check: (experts) => checkExperts('roundRobinGate', k, undefined, experts),
    mostRoutes: (tokens, experts) => Math.ceil((tokens * k) / experts),
    route({ logits }) {
      const [tokens = 0, count = 0] = logits.shape;
      const shares = logits.softmax();
      const routes = indices(tokens * k);
      const around = routes.div(count, { roundingMode: 'floor' }).mul(count);
      const experts = routes.sub(around);
      const weights = shares.gather(1, experts.reshape([tokens, k])).flatten();
      return { tokens: repeated(tokens, k), experts, weights, kept: null, shares };
    },
  };
}
