import { ConfigError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { indices } from '../../tensor/create-ranges.ts';
import { zeros } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { randomShares } from './random-shares.ts';

/** The number of routes that an expert accepts, and the choice of routes to keep if there are more. */
export interface Capacity {
  /**
   * The capacity as a multiple of the routes that each expert would have if all had the same number. It must be above
   * 0.
   */
  readonly factor: number;
  /** The factor in evaluation. Default: factor. */
  readonly evaluationFactor?: number;
  /** The least number of routes that an expert accepts. Default: 1. */
  readonly minimum?: number;
  /**
   * `probs` keeps the routes with the largest scores, `position` those of the first tokens, and `random` any
   * routes. Default: position.
   */
  readonly drop?: 'probs' | 'position' | 'random';
  /**
   * Whether the first choices of all tokens come before all second ones, as in GShard. Default: false, which
   * means token by token.
   */
  readonly firstChoicesFirst?: boolean;
}

export const capacityRules: OptionRules<Capacity> = {
  factor: option.required(option.positive),
  evaluationFactor: option.positive,
  minimum: option.integer(1),
  drop: option.oneOf('probs', 'position', 'random'),
  firstChoicesFirst: option.flag,
};

/** The largest number of routes that one expert accepts. Throws ConfigError if it is not a safe integer. */
export function capacityOf(
  { factor, evaluationFactor = factor, minimum = 1 }: Capacity,
  routes: number,
  experts: number,
  training: boolean,
): number {
  const own = training ? factor : evaluationFactor;
  const capacity = Math.max(minimum, Math.ceil((routes / experts) * own));
  if (Number.isSafeInteger(capacity)) return capacity;
  throw new ConfigError(
    {
      asked: `a capacity of ${own} times ${routes} routes among ${experts} experts`,
      found: `${capacity} routes for each`,
      todo: 'Use a finite factor, or no capacity, where nothing is dropped',
    },
    { factor: own, routes, experts },
  );
}

/** The choices of tokens before anything is dropped. */
export interface Choices {
  /** The chosen experts. An entry of `count` means that the token has no such choice. Shape: i32 [T, K]. */
  readonly experts: Tensor;
  /** The scores of the choices. Shape: f32 [T, K]. */
  readonly scores: Tensor;
  /** The number of experts. */
  readonly count: number;
}

/** Returns which choices the experts have room for. Shape: -> bool [T, K]. */
export function keptChoices(choices: Choices, limit: Capacity, training: boolean): Tensor {
  const { experts, scores, count } = choices;
  const [tokens = 0, perToken = 0] = experts.shape;
  const routes = tokens * perToken;
  const capacity = capacityOf(limit, routes, count, training);
  const first = placesFirst(scores, limit);
  const flat = experts.flatten();
  const places = placesInExperts(first === null ? flat : flat.indexSelect(0, first), count);
  const own = first === null ? places : zeros([routes], 'i32').scatter(0, first, places);
  return own.lt(capacity).reshape([tokens, perToken]);
}

/** The order in which routes take places. Null means token by token. Shape: i32 [T K]. */
function placesFirst(
  scores: Tensor,
  { drop = 'position', firstChoicesFirst = false }: Capacity,
): Tensor | null {
  const [tokens = 0, perToken = 0] = scores.shape;
  const routes = tokens * perToken;
  if (drop === 'random') return randomShares([routes]).argSort(0);
  if (drop === 'probs') return scores.detach().flatten().argSort(0, { descending: true });
  if (!firstChoicesFirst) return null;
  return indices(routes).reshape([tokens, perToken]).permute([1, 0]).flatten();
}

/** For each route, the number of earlier routes to the same expert. Shape: experts i32 [R] -> i32 [R]. */
function placesInExperts(experts: Tensor, count: number): Tensor {
  const routes = experts.numel;
  const order = experts.argSort(0);
  const ones = zeros([routes], 'i32').add(1);
  const sizes = zeros([count + 1], 'i32').scatterAdd(0, experts, ones);
  const starts = sizes.cumsum(0).sub(sizes);
  const sorted = indices(routes).sub(starts.indexSelect(0, experts.indexSelect(0, order)));
  return zeros([routes], 'i32').scatter(0, order, sorted);
}
