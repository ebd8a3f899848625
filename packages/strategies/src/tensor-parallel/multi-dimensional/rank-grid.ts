import type { Tensor } from '@shardwise/core/extend';

/**
 * How matrices lie on a mesh whose ranks share out both their dims, and how they are multiplied
 * there. Activations [B, .., F] have their first dim shared out over `rows` and their last one over
 * `features`.
 */
export interface RankGrid {
  readonly name: string;
  /** Mesh axes, outermost first. */
  readonly rows: readonly string[];
  readonly features: string;
  /** Mesh axes that share out the dims of a weight [out, in]. */
  readonly weight: readonly [outputs: readonly string[], inputs: readonly string[]];
  /** Mesh axes whose ranks hold the same part of a weight. */
  readonly replicas: readonly string[];
  /** How the product of a multiplication lies. */
  readonly next: RankGrid;
  /** x Wᵀ. Shape: x [B', .., I'], weight [O', I''] -> [B'', .., O''], parts as the grid says. */
  multiply(x: Tensor, weight: Tensor): Tensor;
}
