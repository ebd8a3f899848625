import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Gate, GateInput, Routing } from './gate.ts';
import { repeated } from './top-k-gate.ts';

/** Options of `expertChoiceGate`. */
export interface ExpertChoiceGateOptions {
  /** The mean number of experts of a token. Default: 2. */
  readonly factor?: number;
}

const expertChoiceRules: OptionRules<ExpertChoiceGateOptions> = { factor: option.positive };

/**
 * Each expert chooses the tokens with the highest scores, and all experts choose the same number (Zhou et al. 2022).
 * The choice depends on all tokens of a pass, including those that come later in a text.
 */
export function expertChoiceGate(options: ExpertChoiceGateOptions = {}): Gate {
  checkOptions('expertChoiceGate', options, expertChoiceRules);
  const { factor = 2 } = options;
  return {
    name: 'expertChoiceGate',
    k: null,
    jitter: 0,
    takesBias: false,
    check: () => {},
    mostRoutes: (tokens, experts) => tokensOfExpert(tokens, experts, factor),
    route: (input) => routeByExperts(input, factor),
  };
}

function tokensOfExpert(tokens: number, experts: number, factor: number): number {
  return Math.min(tokens, Math.ceil((tokens * factor) / experts));
}

/** Lets each expert choose its C tokens. Shape: logits [T, E] -> E C routes, expert by expert. */
function routeByExperts({ logits }: GateInput, factor: number): Routing {
  const [tokens = 0, count = 0] = logits.shape;
  const shares = logits.softmax();
  const capacity = tokensOfExpert(tokens, count, factor);
  const { indices } = shares.detach().topK(capacity, { dim: 0 });
  return {
    tokens: indices.permute([1, 0]).flatten(),
    experts: repeated(count, capacity),
    weights: shares.gather(0, indices).permute([1, 0]).flatten(),
    kept: null,
    shares,
  };
}
