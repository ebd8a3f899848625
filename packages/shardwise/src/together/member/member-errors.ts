import { CollectiveAbortedError, CollectiveTimeoutError, RefusedError } from '@shardwise/core/spec';
import type { Refusal } from '../protocol/messages.ts';

const todos = {
  version: 'Use the same version of Shardwise as the coordinator',
  token: 'Take the token that the coordinator was started with',
  full: 'Wait until a member leaves, or start the coordinator with a larger --max-members',
  model: 'Build the same model, and give diloco the same options as all members',
  excluded: 'Check the data and the learning rate of this member before it joins again',
  audit:
    'Check the memory and the versions of this machine; nothing that it has computed is taken any more',
  protocol: 'Use the same version of Shardwise as the coordinator',
  slow: 'Use fewer bits in messages, or a faster connection',
} as const satisfies Record<Refusal, string>;

/** The error of a member that the coordinator does not let in, or shuts out. */
export function refusedError(url: string, reason: Refusal, found: string): RefusedError {
  const parts = { asked: `to train together by ${url}`, found, todo: todos[reason] };
  return new RefusedError(parts, { refusal: reason });
}

/** The error of the other ranks of a member whose first rank was not let in. */
export function firstNotLetIn(url: string): CollectiveAbortedError {
  return new CollectiveAbortedError({
    asked: `to train together by ${url}`,
    found: 'that rank 0, which speaks for this one, was not let in',
    todo: 'Read the error of rank 0',
  });
}

export function cannotConnect(url: string): CollectiveTimeoutError {
  return new CollectiveTimeoutError(
    {
      asked: `to train together by ${url}`,
      found: 'nobody who answers there',
      todo: 'Start `shardwise coordinate`, and check the address',
    },
    { url },
  );
}

export function lostError(url: string, reconnectTimeoutMs: number): CollectiveTimeoutError {
  return new CollectiveTimeoutError(
    {
      asked: `to train together by ${url}`,
      found: `a lost connection that could not be made again in ${reconnectTimeoutMs} ms`,
      todo: 'Save the model, and join again when the coordinator answers',
    },
    { url, reconnectTimeoutMs },
  );
}

export function leftError(url: string): CollectiveAbortedError {
  return new CollectiveAbortedError(
    {
      asked: `to train together by ${url}`,
      found: 'a member that has left by close()',
      todo: 'Call close() after the last update',
    },
    { url },
  );
}
