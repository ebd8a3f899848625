import { CollectiveTimeoutError, ConfigError, type CollectiveError } from '@shardwise/core/spec';

export function joinTimeoutError(
  rank: number,
  missing: readonly number[],
  timeoutMs: number,
): CollectiveError {
  const who = `${missing.length === 1 ? 'rank' : 'ranks'} ${missing.join(', ')}`;
  return new CollectiveTimeoutError(
    {
      asked: `Joining the tcp transport on rank ${rank}`,
      found: `${who} did not join within ${timeoutMs} ms`,
      todo: 'Check that they run with the same store, size and epoch, and that their hosts are reachable',
    },
    { rank, missing, timeoutMs },
  );
}

export function alreadyJoinedError(rank: number, epoch: number, address: string): ConfigError {
  return new ConfigError(
    {
      asked: `Joining the tcp transport as rank ${rank} of epoch ${epoch}`,
      found: `a process at ${address} is that rank already`,
      todo: 'Give each process its own rank, each start its own epoch, and each job its own store',
    },
    { rank, epoch, address },
  );
}
