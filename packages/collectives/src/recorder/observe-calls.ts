import { type CallIdentity, ConfigError, dtypes, type ProcessGroup } from '@shardwise/core/spec';
import { addObserver, type ObservedGroup } from '../call/call-observer.ts';
import { CheckedGroup } from '../call/checked-group.ts';
import type { CountedOperation } from '../call/counters.ts';

/** A call of this rank, as it is issued. */
export interface ObservedCall {
  readonly operation: CountedOperation;
  /** It is the same object for all calls of the group. */
  readonly group: ObservedGroup;
  /** n of the operation's shape line, in bytes. */
  readonly byteLength: number;
  /** The other rank of a message, by its number in the group. Undefined for a collective. */
  readonly peer: number | undefined;
  /** What the call is. Undefined if its caller has not said it. */
  readonly identity: CallIdentity | undefined;
}

/** Hears how a call goes on. */
export interface CallListener {
  /** All ranks have arrived, and the data begins to move. It is not told of messages, and of groups of one rank. */
  started(): void;
  /** The call has ended, with its result or with an error. Its caller has not learned of it yet. */
  ended(succeeded: boolean): void;
}

/**
 * Calls `observe` for each call that this rank issues on a group, and on all groups that have a split in common with
 * it, until the returned function is called. `observe` returns null for calls that it does not follow. Throws
 * ConfigError for a group of another package.
 */
export function observeCalls(
  group: ProcessGroup,
  observe: (call: ObservedCall) => CallListener | null,
): () => void {
  if (!(group instanceof CheckedGroup)) {
    throw new ConfigError({
      asked: 'to observe the calls of a group',
      found: 'it is of another kind than those made by @shardwise/collectives',
      todo: 'Give a group of @shardwise/collectives, as context.group of init() is',
    });
  }
  const follow = (call: ObservedCall) => {
    const listener = observe(call);
    return {
      started: (): void => listener?.started(),
      follow: async (done: Promise<void>): Promise<void> => {
        if (listener === null) return;
        listener.ended(await succeeds(done));
      },
    };
  };
  return addObserver(group.observed, {
    group: () => {},
    collective: (of, { record }) => {
      const { operation, dtype, elements, identity } = record;
      const byteLength = dtype === undefined ? 0 : elements * dtypes[dtype].bytes;
      return follow({ operation, group: of, byteLength, peer: undefined, identity });
    },
    transfer: (of, { operation, buffer, peer, identity }) =>
      follow({ operation, group: of, byteLength: buffer.bytes.byteLength, peer, identity }),
  });
}

async function succeeds(done: Promise<void>): Promise<boolean> {
  try {
    await done;
    return true;
  } catch {
    return false;
  }
}
