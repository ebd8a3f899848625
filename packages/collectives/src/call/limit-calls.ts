import { ConfigError, type ProcessGroup } from '@shardwise/core/spec';
import { milliseconds } from './call-options.ts';
import { CheckedGroup } from './checked-group.ts';

/**
 * Sets the time limit in milliseconds for the later calls of this group, and of the groups that are split from
 * it, that do not give their own. It works for all groups that this package makes. Ranks may have different
 * limits. Throws ConfigError for groups of other packages, and for a limit that is not a number of
 * milliseconds.
 */
export function limitCalls(group: ProcessGroup, timeoutMs: number): void {
  if (!milliseconds.fits(timeoutMs)) {
    throw refusal(timeoutMs, `it is not ${milliseconds.expected}`, 'Pass one');
  }
  if (!(group instanceof CheckedGroup)) {
    throw refusal(
      timeoutMs,
      'it is of another kind than those made here',
      'Set the limit where the group is made',
    );
  }
  group.limitTo(timeoutMs);
}

function refusal(timeoutMs: unknown, found: string, todo: string): ConfigError {
  return new ConfigError(
    { asked: `timeoutMs ${String(timeoutMs)} for the calls of a group`, found, todo },
    { timeoutMs },
  );
}
