import { CollectiveAbortedError } from '@shardwise/core/extend';
import type { LaunchEnd } from '../launcher/launch.ts';

/**
 * The error with which a group is closed, so that its calls name the rank that failed, and not the one that
 * was told of it.
 */
export function abortReason({ rank, reason }: LaunchEnd): Error {
  return new CollectiveAbortedError(
    {
      asked: 'Working in the group',
      found: `${rank === undefined ? 'the launcher' : `rank ${rank}`} ended it (${reason})`,
      todo: 'Look for the first failure',
    },
    { abortedBy: rank, reason },
  );
}
