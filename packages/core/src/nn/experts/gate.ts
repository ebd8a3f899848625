import type { Tensor } from '../../tensor/tensor.ts';

/** The input of a gate for T tokens and E experts. */
export interface GateInput {
  /** The output of the router for each expert. Shape: f32 [T, E]. */
  readonly logits: Tensor;
  /** The bias that is added to scores for the choice of experts, but not for their weights. Shape: f32 [E]. */
  readonly bias: Tensor | null;
  readonly training: boolean;
}

/** The assignment of tokens to experts. A route is one pair of a token and an expert. There are R routes. */
export interface Routing {
  /** The token of each route. Shape: i32 [R]. */
  readonly tokens: Tensor;
  /** The expert of each route. Shape: i32 [R]. */
  readonly experts: Tensor;
  /**
   * The factor of the expert's result before it is added to the token's result. It is 0 for dropped routes. Shape: f32
   * [R].
   */
  readonly weights: Tensor;
  /** Whether each route is kept. Null if no route is ever dropped. Shape: bool [R]. */
  readonly kept: Tensor | null;
  /**
   * The scores by which each token chooses experts, as shares of 1. Balance losses average them. Shape: f32 [T,
   * E].
   */
  readonly shares: Tensor;
}

/** How tokens choose experts, or experts choose tokens. */
export interface Gate {
  readonly name: string;
  /** The number of routes of a token before any are dropped. Null if it differs between tokens. */
  readonly k: number | null;
  /** In training, the input of the router is multiplied by random numbers between 1 - jitter and 1 + jitter. */
  readonly jitter: number;
  /** Whether the gate can use a bias for each expert. */
  readonly takesBias: boolean;
  /** Throws ConfigError for a number of experts that the gate cannot choose from. */
  check(experts: number): void;
  /** The most routes that one expert can get from this number of tokens. */
  mostRoutes(tokens: number, experts: number, training: boolean): number;
  route(input: GateInput): Routing;
}

/**
 * Which expert each route goes to, of `count` experts. A choice that was left out has the number of experts as its
 * index, and counts nowhere. Shape: experts i32 [..] -> f32 [.., E].
 */
export function chosenExperts(experts: Tensor, count: number): Tensor {
  const dim = experts.ndim;
  return experts
    .oneHot(count + 1)
    .slice(dim, 0, count)
    .to('f32');
}
