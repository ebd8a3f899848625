import { checkOptions } from '../../base/check-options.ts';
import { ConfigError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { indices } from '../../tensor/create-ranges.ts';
import { concat, full } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { Gate, GateInput, Routing } from './gate.ts';
import { type Capacity, capacityOf, capacityRules, keptChoices } from './limit-routes.ts';
import { gumbel, randomShares } from './random-shares.ts';

/** Groups of experts. Each token first chooses some of the groups (DeepSeek-V3, 2024). */
export interface ExpertGroups {
  /** The number of groups. It divides the number of experts. */
  readonly count: number;
  /** The number of groups that a token chooses. */
  readonly chosen: number;
  /** The score of a group is the sum of the scores of this number of its best experts. Default: 2. */
  readonly best?: number;
}

/** Options of `topKGate`. */
export interface TopKGateOptions {
  /** The number of experts of each token. Default: 2. */
  readonly k?: number;
  /**
   * How logits become the weights of experts: `softmax` is over all experts, `softmaxOfChosen` over the chosen experts
   * after the choice. `sigmoid` and `sqrtSoftplus` treat each expert by itself. Default: softmax.
   */
  readonly scores?: 'softmax' | 'softmaxOfChosen' | 'sigmoid' | 'sqrtSoftplus';
  /** Whether weights are divided by the sum of the chosen ones, or of the kept ones. Default: none. */
  readonly normalize?: 'none' | 'chosen' | 'kept';
  /** The factor of weights. Default: 1. */
  readonly scale?: number;
  readonly groups?: ExpertGroups;
  /**
   * In training, Gumbel noise is added to the logits for the choice of experts: for all choices, or for those
   * after the first. Default: none.
   */
  readonly noise?: 'none' | 'all' | 'afterFirst';
  /**
   * In training, a second choice stays with a probability of twice its share of the two weights (Lepikhin et
   * al. 2020). Default: false.
   */
  readonly randomSecond?: boolean;
  /**
   * In training, the input of the router is multiplied by random numbers between 1 - jitter and 1 + jitter.
   * Default: 0.
   */
  readonly jitter?: number;
  /** The capacity of the experts. Default: nothing is dropped. */
  readonly capacity?: Capacity;
}

const groupRules: OptionRules<ExpertGroups> = {
  count: option.required(option.integer(1)),
  chosen: option.required(option.integer(1)),
  best: option.integer(1),
};
const topKRules: OptionRules<TopKGateOptions> = {
  k: option.integer(1),
  scores: option.oneOf('softmax', 'softmaxOfChosen', 'sigmoid', 'sqrtSoftplus'),
  normalize: option.oneOf('none', 'chosen', 'kept'),
  scale: option.positive,
  groups: option.object(),
  noise: option.oneOf('none', 'all', 'afterFirst'),
  randomSecond: option.flag,
  jitter: option.fraction,
  capacity: option.object('a capacity'),
};

/**
 * Each token goes to its k best experts. `switchGate` and `gshardGate` are special cases of it. `docs/experts.md` lists
 * the options for other gates. Throws ConfigError for options that it does not have.
 */
export function topKGate(options: TopKGateOptions = {}): Gate {
  return makeTopKGate('topKGate', options);
}

export function makeTopKGate(name: string, options: TopKGateOptions): Gate {
  checkOptions(name, options, topKRules);
  const { k = 2, groups, jitter = 0, capacity, randomSecond = false } = options;
  if (groups !== undefined) checkOptions(`${name} groups`, groups, groupRules);
  if (capacity !== undefined) checkOptions(`${name} capacity`, capacity, capacityRules);
  if (randomSecond && k !== 2) throw oneSecond(name, k);
  return {
    name,
    k,
    jitter,
    takesBias: true,
    check: (experts) => checkExperts(name, k, groups, experts),
    // A token chooses an expert at most once.
    mostRoutes: (tokens, experts, training) =>
      capacity === undefined
        ? tokens
        : Math.min(tokens, capacityOf(capacity, tokens * k, experts, training)),
    route: (input) => routeTopK(input, { ...options, k }),
  };
}

/** Routes each token to its k experts. Shape: logits [T, E] -> T k routes, token by token. */
function routeTopK(input: GateInput, options: TopKGateOptions & { readonly k: number }): Routing {
  const { logits, training } = input;
  const { k, normalize = 'none', scale = 1, capacity, randomSecond = false } = options;
  const [tokens = 0, count = 0] = logits.shape;
  const scores = scoresOf(logits, options);
  const chosen = choose(input, scores.detach(), options);
  const own = scores.gather(1, chosen);
  const raw = options.scores === 'softmaxOfChosen' ? own.softmax() : own;
  const weighed = normalize === 'chosen' ? shareOfSum(raw) : raw;
  const isThinned = randomSecond && training;
  const experts = isThinned ? withoutSome(chosen, raw.detach(), count) : chosen;
  const conditions = [
    ...(isThinned ? [experts.lt(count)] : []),
    ...(capacity === undefined
      ? []
      : [keptChoices({ experts, scores: raw, count }, capacity, training)]),
  ];
  const [condition = null, ...others] = conditions;
  const kept = condition && others.reduce((all, each) => all.logicalAnd(each), condition);
  const left = kept === null ? weighed : kept.where(weighed, 0);
  const weights = normalize === 'kept' ? shareOfSum(left) : left;
  return {
    tokens: repeated(tokens, k),
    experts: experts.flatten(),
    weights: (scale === 1 ? weights : weights.mul(scale)).flatten(),
    kept: kept?.flatten() ?? null,
    shares: sharesOf(logits, scores, options),
  };
}

/** The scores of logits. For `softmaxOfChosen` they are the logits. Shape: [T, E] -> [T, E]. */
function scoresOf(logits: Tensor, { scores = 'softmax' }: TopKGateOptions): Tensor {
  if (scores === 'softmax') return logits.softmax();
  if (scores === 'sigmoid') return logits.sigmoid();
  return scores === 'sqrtSoftplus' ? logits.softplus().sqrt() : logits;
}

/** The shares that balance losses average. They sum to 1 for each token. Shape: -> [T, E]. */
function sharesOf(
  logits: Tensor,
  scores: Tensor,
  { scores: kind = 'softmax' }: TopKGateOptions,
): Tensor {
  if (kind === 'softmax') return scores;
  return kind === 'softmaxOfChosen' ? logits.softmax() : shareOfSum(scores);
}

/** The experts of each token, best first. Shape: scores [T, E] -> i32 [T, k]. */
function choose(
  { logits, bias, training }: GateInput,
  scores: Tensor,
  options: TopKGateOptions & { readonly k: number },
): Tensor {
  const { k, noise = 'none', groups } = options;
  const isNoisy = training && noise !== 'none';
  const plain = bias === null ? scores : scores.add(bias.detach());
  const noisy = isNoisy ? logits.detach().add(gumbel(logits.shape)) : plain;
  const open = groups === undefined ? noisy : inGroups(noisy, groups);
  if (!isNoisy || noise === 'all' || k === 1) {
    const from = isNoisy && noise === 'afterFirst' ? plain : open;
    return from.topK(k, { dim: 1 }).indices;
  }
  const first = plain.argMax(1, { keepDim: true });
  const isFirst = first.flatten().oneHot(logits.shape[1] ?? 0);
  const others = isFirst.where(full([], -Infinity), open).topK(k - 1, { dim: 1 }).indices;
  return concat([first, others], 1);
}

/** Sets the scores of experts outside of a token's groups to -Infinity. Shape: [T, E] -> [T, E]. */
function inGroups(scores: Tensor, { count, chosen, best = 2 }: ExpertGroups): Tensor {
  const [tokens = 0, experts = 0] = scores.shape;
  const size = experts / count;
  const split = scores.reshape([tokens, count, size]);
  const rating = split.topK(Math.min(best, size), { dim: 2 }).values.sum([2]);
  const isChosen = rating
    .topK(chosen, { dim: 1 })
    .indices.oneHot(count)
    .any([1])
    .reshape([tokens, count, 1]);
  return isChosen.where(split, full([], -Infinity)).reshape([tokens, experts]);
}

/** Removes the second expert of some tokens at random, by setting it to `count`. Shape: i32 [T, 2] -> i32 [T, 2]. */
function withoutSome(experts: Tensor, weights: Tensor, count: number): Tensor {
  const [tokens = 0] = experts.shape;
  const second = shareOfSum(weights).slice(1, 1, 2);
  const stays = randomShares([tokens, 1]).lt(second.mul(2));
  const other = stays.where(experts.slice(1, 1, 2), count);
  return concat([experts.slice(1, 0, 1), other], 1);
}

/** Divides weights by their sum for each token. Shape: [T, k] -> [T, k]. */
function shareOfSum(weights: Tensor): Tensor {
  return weights.div(weights.sum([1], { keepDim: true }).maximum(1e-20));
}

/** The numbers from 0 to tokens - 1, each k times in a row. Shape: -> i32 [tokens k]. */
export function repeated(tokens: number, k: number): Tensor {
  return indices(tokens).reshape([tokens, 1]).expand([tokens, k]).flatten();
}

/** Throws ConfigError if a token cannot have k of this number of experts. */
export function checkExperts(
  name: string,
  k: number,
  groups: ExpertGroups | undefined,
  experts: number,
): void {
  if (k > experts) {
    throw new ConfigError(
      {
        asked: `${name} with k: ${k}`,
        found: `${experts} experts`,
        todo: `Use a k from 1 to ${experts}`,
      },
      { k, experts },
    );
  }
  if (groups === undefined) return;
  const { count, chosen } = groups;
  const open = (experts / count) * chosen;
  if (Number.isInteger(experts / count) && chosen <= count && k <= open) return;
  throw new ConfigError(
    {
      asked: `${name} with k: ${k} of ${chosen} of ${count} groups`,
      found: `${experts} experts`,
      todo: 'Use a number of groups that divides the experts, and choose as many groups as hold k experts',
    },
    { k, groups, experts },
  );
}

function oneSecond(name: string, k: number): ConfigError {
  return new ConfigError(
    {
      asked: `${name} with randomSecond and k: ${k}`,
      found: 'a rule for the second of two choices',
      todo: 'Use k: 2, or leave randomSecond out',
    },
    { k },
  );
}
