import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { allReduce } from '../../tensor/collectives.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { chosenExperts, type Routing } from './gate.ts';

/**
 * A loss that is smallest if all experts have the same number of routes. P is the mean share of each expert, and F is
 * its mean number of routes per token before any are dropped (F1: of first choices only). There are E experts, and a
 * token has k choices:
 * - `switch`: E sum(P F1), as in Switch, and in DeepSpeed for one and two choices;
 * - `megatron`: E / k sum(P F), as in Megatron, and in DeepSpeed for k choices;
 * - `gshard`: sum(P F1) / E, as in GShard and fairscale.
 */
export interface BalanceLoss {
  readonly kind: 'switch' | 'megatron' | 'gshard';
  /** The factor of the loss. */
  readonly coefficient: number;
  /**
   * Whether the loss is the mean over sequences, each balanced by itself. This has no effect for inputs of fewer than 3
   * dims. Use true if each rank has whole sequences, and otherwise the mesh axes whose ranks have parts of the same
   * sequences. Default: false.
   */
  readonly bySequence?: boolean | readonly string[];
}

export const balanceRules: OptionRules<BalanceLoss> = {
  kind: option.required(option.oneOf('switch', 'megatron', 'gshard')),
  coefficient: option.required(option.nonNegative),
  bySequence: option.either(option.flag, option.listOf(option.axisName)),
};

/** Options of `balanceLoss`. */
export interface BalanceOptions {
  /** The number of routes of a token. The first of each k is its first choice. */
  readonly k: number;
  /** The number of sequences. They follow each other, with the same number of tokens each. Default: 1. */
  readonly sequences?: number;
  /** Mesh axes over whose ranks routes are counted. Default: none, so the routes of this rank count. */
  readonly axes?: readonly string[];
}

const optionRules: OptionRules<BalanceOptions> = {
  k: option.required(option.integer(1)),
  sequences: option.integer(1),
  axes: option.listOf(option.axisName),
};

/**
 * The loss of a routing, without its coefficient. Routes must be ordered by token. With axes, it is the part of
 * this rank's tokens in the loss of all tokens: the mean over the ranks is the loss of all tokens. Shape: ->
 * [].
 */
export function balanceLoss(
  { experts, shares }: Pick<Routing, 'experts' | 'shares'>,
  kind: BalanceLoss['kind'],
  options: BalanceOptions,
): Tensor {
  checkOptions('balanceLoss', options, optionRules);
  const { k, sequences = 1, axes = [] } = options;
  const [tokens = 0, count = 0] = shares.shape;
  const choices = experts.reshape([tokens, k]);
  const counted = kind === 'megatron' ? choices : choices.slice(1, 0, 1);
  const meanOf = (x: Tensor): Tensor => x.reshape([sequences, tokens / sequences, count]).mean([1]);
  const load = meanOf(chosenExperts(counted, count).sum([1]));
  const all = axes.reduce((mean, axis) => allReduce(mean, axis, { reduce: 'avg' }), load);
  return meanOf(shares)
    .mul(all)
    .sum()
    .mul(factorOf(kind, count, k) / sequences);
}

function factorOf(kind: BalanceLoss['kind'], experts: number, k: number): number {
  if (kind === 'megatron') return experts / k;
  return kind === 'switch' ? experts : 1 / experts;
}

/**
 * The mean over tokens of the squared logsumexp of the logits. This loss keeps logits small (Zoph et al. 2022). Shape:
 * logits [T, E] -> [].
 */
export function routerZLoss(logits: Tensor): Tensor {
  return logits.logSumExp(1).square().mean();
}
