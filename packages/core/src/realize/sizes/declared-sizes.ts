import type { SizeLimit } from '../../graph/node.ts';
import type { Subgraph } from '../collect/collect.ts';
import { isSpecial } from '../signature/signature.ts';

/** What was declared about the sizes of leaves, which come first in a signature. */
export interface DeclaredSizes {
  /** The declared limits of sizes, by the place of the size in the signature. */
  readonly limits: ReadonlyMap<number, SizeLimit>;
  /** The number of sizes of leaves in the signature. */
  readonly leafSizes: number;
}

export function declaredSizes({ leaves }: Subgraph): DeclaredSizes {
  const limits = new Map<number, SizeLimit>();
  let place = 0;
  for (const { shape, sizeLimits } of leaves) {
    for (const [dim, size] of shape.entries()) {
      if (isSpecial(size)) continue;
      const limit = sizeLimits?.get(dim);
      if (limit !== undefined) limits.set(place, limit);
      place++;
    }
  }
  return { limits, leafSizes: place };
}
