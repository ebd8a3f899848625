import type { Store } from '@shardwise/core/extend';
import { parseRankMessage, type RankMessage } from '../run-state/run-message.ts';
import { BatchSender, receiveBatches } from './batches.ts';

interface RelayRoute {
  readonly store: Store;
  readonly epoch: number;
  /** The place of the host that sends. */
  readonly node: number;
}

const BATCH_MS = 100;

const prefixOf = ({ epoch, node }: RelayRoute): string => `relay/${epoch}/${node}`;

/** Returns what sends the messages of this host's ranks through the store to the host that shows the run. */
export function relaySender(route: RelayRoute): BatchSender {
  return new BatchSender({ store: route.store, prefix: prefixOf(route) }, BATCH_MS);
}

interface ReceiveRelayOptions extends RelayRoute {
  readonly firstRank: number;
  readonly ranks: number;
  readonly signal: AbortSignal;
  readonly onMessage: (message: RankMessage) => void;
}

/** Receives the messages of another host's ranks. Settles after the last message, or when the signal aborts. */
export async function receiveRelay(options: ReceiveRelayOptions): Promise<void> {
  const { store, firstRank, ranks, signal, onMessage } = options;
  await receiveBatches({ store, prefix: prefixOf(options) }, signal, (value) => {
    const message = parseRankMessage(value);
    // A host may only send messages of its own ranks.
    if (message === undefined || message.rank < firstRank || message.rank >= firstRank + ranks)
      return;
    onMessage(message);
  });
}
