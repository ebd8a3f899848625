import type { Store } from '@shardwise/core/extend';
import type { RankMessage } from '../run-state/message.ts';
import { batchKey, decodeBatch } from './relay-batch.ts';

export interface ReceiveRelayOptions {
  readonly store: Store;
  readonly epoch: number;
  /** The place of the host that sends, and its ranks. */
  readonly node: number;
  readonly firstRank: number;
  readonly ranks: number;
  readonly signal: AbortSignal;
  readonly onMessage: (message: RankMessage) => void;
}

/** Takes what another host's ranks say; settles behind its last message, or when it is told to end. */
export async function receiveRelay(options: ReceiveRelayOptions): Promise<void> {
  const { store, epoch, node, firstRank, ranks, signal, onMessage } = options;
  for (let sequence = 0; !signal.aborted; sequence += 1) {
    const key = batchKey(epoch, node, sequence);
    // Ended by the signal, or with the store: in both cases nothing follows.
    const bytes = await store.get(key, { timeoutMs: Infinity, signal }).catch(() => undefined);
    if (bytes === undefined) return;
    await store.delete(key).catch(() => undefined);
    const batch = decodeBatch(bytes);
    for (const message of batch?.messages ?? []) {
      // A host speaks for its own ranks only.
      if (message.rank >= firstRank && message.rank < firstRank + ranks) onMessage(message);
    }
    if (batch === undefined || batch.isLast) return;
  }
}
