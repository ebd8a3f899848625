import { ConfigError, type ProcessGroup } from '@shardwise/core/extend';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';

/** Returns the transport to show for a group that the script has made. */
export function ownTransport({ size }: ProcessGroup): TransportChoice<'own'> {
  return {
    kind: 'own',
    reason: `${size} ${size === 1 ? 'rank' : 'ranks'} of the script's own group`,
  };
}

/** Throws ConfigError if the group's rank or size is not that of the rank that the launcher started. */
export function checkOwnGroup(
  group: ProcessGroup,
  { rank, worldSize }: { readonly rank: number; readonly worldSize: number },
): void {
  if (group.rank === rank && group.size === worldSize) return;
  throw new ConfigError(
    {
      asked: `init with a group in which this is rank ${group.rank} of ${group.size}`,
      found: `shardwise run has started it as rank ${rank} of ${worldSize}`,
      todo: 'Make the group of RANK and WORLD_SIZE, which each rank has in its environment',
    },
    { rank, worldSize, groupRank: group.rank, groupSize: group.size },
  );
}
