import {
  CollectiveAbortedError,
  CollectiveMismatchError,
  CollectiveTimeoutError,
  ConfigError,
  type CollectiveError,
} from '@shardwise/core/spec';

export interface MessageSite {
  readonly operation: 'send' | 'recv';
  readonly rank: number;
  readonly peer: number;
  readonly tag: number;
  readonly byteLength: number;
}

export function messageLengthError(site: MessageSite, foundBytes: number): CollectiveError {
  const { rank, peer, tag, byteLength } = site;
  return new CollectiveMismatchError(
    {
      asked: `A message of ${byteLength} bytes on rank ${rank} from rank ${peer}`,
      found: `it has ${foundBytes} bytes`,
      todo: 'Make both ranks pass buffers of one size',
    },
    { rank, from: peer, tag },
  );
}

export function messageTimeoutError(site: MessageSite, timeoutMs: number): CollectiveError {
  return new CollectiveTimeoutError(
    {
      asked: `${site.operation} of ${site.byteLength} bytes on rank ${site.rank}, tag ${site.tag}`,
      found: `after ${timeoutMs} ms rank ${site.peer} has not done its part`,
      todo: 'Check that it runs and makes the same calls, or raise timeoutMs',
    },
    { ...site, timeoutMs },
  );
}

export function messageAbortedError(site: MessageSite, reason: string): CollectiveError {
  return new CollectiveAbortedError(
    {
      asked: `${site.operation} between rank ${site.rank} and rank ${site.peer}, tag ${site.tag}`,
      found: `its signal ended it (${reason})`,
      todo: 'Look for what gave the signal',
    },
    { ...site, abortedBy: site.rank, reason },
  );
}

export function peerRangeError(rank: number, peer: number, peers: readonly number[]): ConfigError {
  return new ConfigError(
    {
      asked: `A message between ranks ${rank} and ${peer}`,
      found: `rank ${rank} is connected with ${peers.join(', ') || 'no rank'}`,
      todo: 'Pass a rank among them',
    },
    { rank, peer, peers },
  );
}

export function joinTimeoutError(
  rank: number,
  missing: readonly number[],
  timeoutMs: number,
  cause?: unknown,
): CollectiveError {
  const who = `${missing.length === 1 ? 'rank' : 'ranks'} ${missing.join(', ')}`;
  return new CollectiveTimeoutError(
    {
      asked: `Joining the tcp transport on rank ${rank}`,
      found: `${who} did not join within ${timeoutMs} ms`,
      todo: 'Check that they run with the same store, size and epoch, and that their hosts are reachable',
    },
    { rank, missing, timeoutMs },
    { cause },
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
