import { allGatherObject } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/extend';
import { z } from 'zod';
import type { CommittedState } from './committed-state.ts';

/** What a rank says of the parts that it has. */
const said = z.object({
  own: z.string().nullable(),
  missing: z.string().nullable(),
  parts: z.int(),
});

/**
 * Returns why the ranks cannot go on without each other, if they cannot: each replica of `replicaSize` consecutive ranks
 * must have the whole state, divided in the same way. It is a collective.
 */
export async function findBound(
  group: ProcessGroup,
  { own, missing, parts }: CommittedState,
  replicaSize: number,
): Promise<string | undefined> {
  const mine = { own: own ?? null, missing: missing ?? null, parts };
  const held = (await allGatherObject(group, mine)).map((value) => said.parse(value));
  const single = held.find((each) => each.own !== null);
  if (single !== undefined) return `each rank has a ${single.own} of its own`;
  const part = held.find((each) => each.missing !== null);
  if (replicaSize === 1) {
    return part && `${part.missing} (replicaSize of survive() says how many ranks are a replica)`;
  }
  const other = held.findIndex((each, rank) => each.parts !== held[rank % replicaSize]?.parts);
  if (other < 0) return undefined;
  return `ranks ${other % replicaSize} and ${other} have different parts, which replicas of ${replicaSize} consecutive ranks do not`;
}
