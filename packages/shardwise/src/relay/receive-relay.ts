import type { Store } from '@shardwise/core/extend';
import type { RankMessage } from '../run-state/run-message.ts';
import { batchKey, decodeBatch } from './relay-batch.ts';

export interface ReceiveRelayOptions {
  readonly store: Store;
  readonly epoch: number;
  /** The place of the host that sends. */
  readonly node: number;
  readonly firstRank: number;
  readonly ranks: number;
  readonly signal: AbortSignal;
  readonly onMessage: (message: RankMessage) => void;
}

/** Receives the messages of another host's ranks. Settles after the last message, or when the signal aborts. */
export async function receiveRelay(options: ReceiveRelayOptions): Promise<void> {
  const { store, epoch, node, firstRank, ranks, signal, onMessage } = options;
  for (let sequence = 0; !signal.aborted; sequence += 1) {
    const key = batchKey(epoch, node, sequence);
    // The signal or the loss of the store ends the wait. In both cases no message follows.
    const bytes = await store.get(key, { timeoutMs: Infinity, signal }).catch(() => undefined);
    if (bytes === undefined) return;
    await store.delete(key).catch(() => undefined);
    const batch = decodeBatch(bytes);
    for (const message of batch?.messages ?? []) {
      // A host may only send messages of its own ranks.
      if (message.rank >= firstRank && message.rank < firstRank + ranks) onMessage(message);
    }
    if (batch === undefined || batch.isLast) return;
  }
}
