import type { Tensor } from '../../tensor/tensor.ts';

/** What a gate chooses from. T tokens, E experts. */
export interface GateInput {
  /** What the router says of each expert. Shape: f32 [T, E]. */
  readonly logits: Tensor;
  /** Added to scores where experts are chosen, and not where they are weighed. Shape: f32 [E]. */
  readonly bias: Tensor | null;
  readonly training: boolean;
}

/** Which tokens go to which experts. A route is one token on its way to one expert; R routes. */
export interface Routing {
  /** The token of each route. Shape: i32 [R]. */
  readonly tokens: Tensor;
  /** The expert of each route. Shape: i32 [R]. */
  readonly experts: Tensor;
  /** By what the expert's result is multiplied before it is added to the token's; 0 of routes that are dropped. Shape: f32 [R]. */
  readonly weights: Tensor;
  /** Null where no route is ever dropped. Shape: bool [R]. */
  readonly kept: Tensor | null;
  /** What each token's experts are chosen by, as shares of 1; balance losses average it. Shape: f32 [T, E]. */
  readonly shares: Tensor;
}

/** How tokens choose experts, or experts tokens. */
export interface Gate {
  readonly name: string;
  /** Routes that a token has before any are dropped; null where that differs between tokens. */
  readonly k: number | null;
  /** What the router reads is multiplied by numbers between 1 - jitter and 1 + jitter in training. */
  readonly jitter: number;
  /** Whether it takes a bias of experts. */
  readonly takesBias: boolean;
  /** Throws ConfigError for a number of experts that it can't choose from. */
  check(experts: number): void;
  /** The most routes that one expert is given of so many tokens. */
  mostRoutes(tokens: number, experts: number, training: boolean): number;
  route(input: GateInput): Routing;
}
