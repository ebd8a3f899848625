import { ConfigError } from '@shardwise/core/extend';
import type { Every } from './meeting-times.ts';

/** The options of `diloco` that decide whether updates can count by their tokens. */
interface WeightedOptions {
  readonly every: Every;
  readonly weighted: boolean;
  readonly hasMembers: boolean;
  readonly isMean: boolean;
  readonly isAudited: boolean;
}

/** Throws ConfigError for options that contradict `weighted`, and for rounds of a time without it. */
export function checkWeighted(options: WeightedOptions): void {
  const { every, weighted, hasMembers, isMean, isAudited } = options;
  if (!weighted) {
    if (typeof every === 'number') return;
    throw new ConfigError({
      asked: `diloco with rounds of ${every.seconds} s`,
      found:
        'members that make different numbers of updates in a round, of which each counts as much as the others',
      todo: 'Add `weighted: true` and `members`, or give `every` as a number of updates',
    });
  }
  const asked = 'diloco with `weighted: true`';
  if (!hasMembers) {
    throw new ConfigError({
      asked,
      found: 'ranks that all make the same number of updates',
      todo: 'Leave it out, or give `members`',
    });
  }
  if (!isMean) {
    throw new ConfigError({
      asked,
      found:
        'an `aggregate` that is not the mean, and that compares updates with each other as equals',
      todo: "Leave out `weighted`, or use the aggregate 'mean'",
    });
  }
  if (!isAudited) return;
  throw new ConfigError({
    asked,
    found: '`audit`, with which all updates are made from the same number of samples',
    todo: 'Leave out one of them',
  });
}
