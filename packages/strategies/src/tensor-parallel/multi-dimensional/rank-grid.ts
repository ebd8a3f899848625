import type { Tensor } from '@shardwise/core/extend';

/**
 * How matrices lie on a mesh whose ranks divide both of their dims, and how they are multiplied there. The
 * first dim of activations [B, .., F] is divided over `rows`, and their last dim over `features`.
 */
export interface RankGrid {
  readonly name: string;
  /** Mesh axes, outermost first. */
  readonly rows: readonly string[];
  readonly features: string;
  /** Mesh axes that divide the dims of a weight [out, in]. */
  readonly weight: readonly [outputs: readonly string[], inputs: readonly string[]];
  /** Mesh axes whose ranks hold the same part of a weight. */
  readonly replicas: readonly string[];
  /** The layout of the result of a product. */
  readonly next: RankGrid;
  /** x Wᵀ. Shape: x [B', .., I'], weight [O', I''] -> [B'', .., O''], each a part as the grid says. */
  multiply(x: Tensor, weight: Tensor): Tensor;
}
