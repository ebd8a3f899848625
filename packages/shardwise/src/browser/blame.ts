import type { FlightDump } from '@shardwise/collectives';
import { DataError } from '@shardwise/core/extend';
import { describeVerdict } from '../blame/describe-verdict.ts';
import { findBlame } from '../blame/find-blame.ts';

/**
 * Returns the lines that `shardwise blame` prints, from the dumps of a page's ranks: which ranks did not do
 * what the others did, and at which call. Each rank records its calls by `recordCalls(context.group, recorder)`
 * before its first one, and posts `recorder.dump()` to the page. Ranks that hang post no dump. Throws DataError
 * if there is no dump, or two of one rank.
 */
export function blame(dumps: Iterable<FlightDump>): readonly string[] {
  const byRank = new Map<number, FlightDump>();
  for (const dump of dumps) {
    if (byRank.has(dump.rank)) throw refused(`two of rank ${dump.rank}`);
    byRank.set(dump.rank, dump);
  }
  if (byRank.size === 0) throw refused('none');
  return describeVerdict(findBlame(byRank));
}

function refused(found: string): DataError {
  return new DataError({
    asked: 'a verdict from the dumps of ranks',
    found,
    todo: 'Give one dump of each rank that has left one',
  });
}
