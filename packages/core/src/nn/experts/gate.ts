import type { Tensor } from '../../tensor/tensor.ts';

/** The input of a gate for T tokens and E experts. */
export interface GateInput {
  /** The output of the router for each expert. Shape: f32 [T, E]. */
  readonly logits: Tensor;
  /** Added to scores for the choice of experts, but not for their weights. Shape: f32 [E]. */
  readonly bias: Tensor | null;
  readonly training: boolean;
}

/** Which tokens go to which experts. A route is the assignment of a token to an expert. There are R routes. */
export interface Routing {
  /** The token of each route. Shape: i32 [R]. */
  readonly tokens: Tensor;
  /** The expert of each route. Shape: i32 [R]. */
  readonly experts: Tensor;
  /**
   * The factor of the expert's result before it is added to the token's result; 0 for dropped routes. Shape:
   * f32 [R].
   */
  readonly weights: Tensor;
  /** Null if no route is ever dropped. Shape: bool [R]. */
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
  /** The number of routes of a token before any are dropped; null if it differs between tokens. */
  readonly k: number | null;
  /** In training, the input of the router is multiplied by random numbers between 1 - jitter and 1 + jitter. */
  readonly jitter: number;
  /** Whether it can use a bias for each expert. */
  readonly takesBias: boolean;
  /** Throws ConfigError for a number of experts from which it cannot choose. */
  check(experts: number): void;
  /** The most routes that one expert can get from this number of tokens. */
  mostRoutes(tokens: number, experts: number, training: boolean): number;
  route(input: GateInput): Routing;
}
