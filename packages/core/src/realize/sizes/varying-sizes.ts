import type { Node } from '../../graph/node.ts';
import { formatShape } from '../../base/shape.ts';
import type { VaryingSize } from '../../timeline-event.ts';
import type { Subgraph } from '../collect/collect.ts';
import { sizeListsOf } from '../signature/op-sizes.ts';
import { isSpecial } from '../signature/signature.ts';
import type { Observation, RelatedSizes } from './related-sizes.ts';

/** The sizes that vary in a plan that serves several sizes. */
export function varyingSizesOf(
  subgraph: Subgraph,
  { symbols, places, limits }: RelatedSizes,
  observations: readonly Observation[],
): readonly VaryingSize[] {
  return places.map((place, symbol): VaryingSize => {
    const numbers = observations.map((sizesOfRun) => sizesOfRun[place] ?? 0);
    return {
      ...placeIn(subgraph, place),
      from: Math.min(...numbers),
      to: Math.max(...numbers),
      max: symbols[symbol]?.max ?? 0,
      isDeclared: limits[symbol] !== null,
    };
  });
}

/** Describes the tensor or op that the size at a place of the signature belongs to. */
function placeIn({ leaves, computed }: Subgraph, place: number): Pick<VaryingSize, 'of' | 'line'> {
  let left = place;
  const dimOf = (sizes: readonly number[]): number =>
    sizes.findIndex((size) => !isSpecial(size) && left-- === 0);
  const at = (node: Node, of: string): Pick<VaryingSize, 'of' | 'line'> => ({
    of: `${of} of shape ${formatShape(node.shape)}`,
    line: node.site?.line ?? null,
  });
  for (const leaf of leaves) {
    const dim = dimOf(leaf.shape);
    if (dim >= 0) return at(leaf, `dim ${dim} of a tensor`);
  }
  for (const node of computed) {
    for (const list of sizeListsOf(node)) {
      const dim = dimOf(list);
      if (dim >= 0) return at(node, `dim ${dim} of ${node.op}`);
    }
  }
  throw new RangeError(`no size at place ${place}`);
}
