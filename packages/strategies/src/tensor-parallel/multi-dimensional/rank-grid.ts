import { currentSession, LayoutError, type Tensor } from '@shardwise/core/extend';

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

/** Returns the number of ranks of each of the axes. Throws LayoutError if they differ. */
export function gridSize(name: string, axes: readonly string[]): number {
  const { mesh } = currentSession();
  const sizes = axes.map((axis) => mesh.group(axis).size);
  const [size = 1] = sizes;
  if (sizes.every((each) => each === size)) return size;
  throw new LayoutError(
    {
      asked: `${name} tensor parallelism over the axes ${axes.join(', ')}`,
      found: `${sizes.join(' × ')} ranks`,
      todo: 'Give these axes of the mesh one size',
    },
    { axes, sizes },
  );
}
