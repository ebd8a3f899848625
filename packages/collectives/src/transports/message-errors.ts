import {
  CollectiveAbortedError,
  CollectiveTimeoutError,
  ConfigError,
  type CollectiveError,
} from '@shardwise/core/spec';

/** How errors name a message. Ranks are numbers of the transport. */
export interface MessageLabel {
  readonly operation: 'send' | 'recv';
  readonly rank: number;
  readonly peer: number;
  readonly tag: number;
  readonly byteLength: number;
}

export function messageTimeoutError(label: MessageLabel, timeoutMs: number): CollectiveError {
  return new CollectiveTimeoutError(
    {
      asked: `${label.operation} of ${label.byteLength} bytes on rank ${label.rank}, tag ${label.tag}`,
      found: `after ${timeoutMs} ms rank ${label.peer} has not done its part`,
      todo: 'Check that it runs and makes the same calls, or raise timeoutMs',
    },
    { ...label, timeoutMs },
  );
}

export function messageAbortedError(label: MessageLabel, reason: string): CollectiveError {
  return new CollectiveAbortedError(
    {
      asked: `${label.operation} between rank ${label.rank} and rank ${label.peer}, tag ${label.tag}`,
      found: `its signal ended it (${reason})`,
      todo: 'Look for what gave the signal',
    },
    { ...label, abortedBy: label.rank, reason },
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
