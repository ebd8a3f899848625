import { currentSession, LayoutError } from '@shardwise/core/extend';

/**
 * What happens to a unit's whole parameters between forward and backward: they are kept, freed, or sharded over an
 * axis of fewer ranks than the axis that shards the model.
 */
export type AfterForward =
  | { readonly kind: 'keep' }
  | { readonly kind: 'free' }
  | { readonly kind: 'reshard'; readonly axis: string; readonly ranks: number };

/**
 * Converts PyTorch's reshard_after_forward: true, false, or the number of neighbouring ranks that each keep a part.
 * `size` is the number of ranks of `axis`. Throws LayoutError for a number that does not divide `size`.
 */
export function afterForwardOf(
  reshard: boolean | number,
  axis: string,
  size: number,
): AfterForward {
  if (reshard === true || reshard === size) return { kind: 'free' };
  if (reshard === false || reshard === 1) return { kind: 'keep' };
  if (Number.isInteger(reshard) && reshard > 0 && size % reshard === 0) {
    return { kind: 'reshard', axis: `${axis}/${reshard}`, ranks: reshard };
  }
  throw new LayoutError(
    {
      asked: `reshardAfterForward: ${reshard} over the mesh axis '${axis}'`,
      found: `${size} ranks, which is not a multiple of it`,
      todo: `Choose a divisor of ${size}, or true or false`,
    },
    { reshardAfterForward: reshard, axis, size },
  );
}

/** Adds the groups of neighbouring ranks to the mesh. It is a collective. */
export async function makeReshardGroups(
  plans: Iterable<AfterForward>,
  axis: string,
): Promise<void> {
  const session = currentSession();
  for (const plan of plans) {
    if (plan.kind !== 'reshard') continue;
    const { ranks } = plan;
    await session.extendMesh(plan.axis, axis, async (group) => {
      const neighbours = await group.split(Math.floor(group.rank / ranks), group.rank);
      if (neighbours !== undefined) return neighbours;
      throw new TypeError('a rank with a colour is in a group');
    });
  }
}
