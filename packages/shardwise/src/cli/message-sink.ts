import { setTimeout as delay } from 'node:timers/promises';
import type { Store } from '@shardwise/core/extend';
import { receiveRelay, relaySender } from '../relay/relay.ts';
import { firstRankOf, type Generation } from '../rendezvous/generation.ts';
import type { RunMessage } from '../run-state/run-message.ts';
import type { RunRecord } from './run-record.ts';

/** Takes the messages of this host's ranks in one generation. */
export interface MessageSink {
  add(message: RunMessage): void;
  /** Call this when the ranks of this host have ended. */
  close(): Promise<void>;
}

/** How long to wait for messages that ranks of other hosts sent before their end. */
const DRAIN_MS = 750;

export interface RecordingSinkOptions {
  readonly record: RunRecord;
  readonly generation: Generation;
  /** The store of the hosts. Undefined if there are no other hosts. */
  readonly store: Store | undefined;
  /** Whether the host at a place has stopped giving signs of life. */
  readonly isQuiet: (place: number) => boolean;
}

/** Returns the sink of the host that shows the run. It adds the messages of all hosts to the run's record. */
export function recordingSink({
  record,
  generation,
  store,
  isQuiet,
}: RecordingSinkOptions): MessageSink {
  const controller = new AbortController();
  const relays =
    store === undefined
      ? []
      : generation.nodes.flatMap(({ ranks }, node) => {
          if (node === generation.nodeRank) return [];
          const firstRank = firstRankOf(generation, node);
          const { epoch } = generation;
          const { signal } = controller;
          const onMessage = (message: RunMessage): void => record.add(message);
          const ended = receiveRelay({ store, epoch, node, firstRank, ranks, signal, onMessage });
          return [{ node, ended }];
        });
  return {
    add: (message) => record.add(message),
    close: async () => {
      const awaited = relays.filter(({ node }) => !isQuiet(node));
      const drained = new AbortController();
      const limit = delay(DRAIN_MS, undefined, { signal: drained.signal }).catch(() => undefined);
      await Promise.race([Promise.all(awaited.map(({ ended }) => ended)), limit]);
      drained.abort();
      controller.abort();
      await Promise.all(relays.map(({ ended }) => ended));
    },
  };
}

/** Returns the sink of the other hosts. It sends messages to the host that shows the run. */
export function relayingSink(generation: Generation, store: Store): MessageSink {
  const sender = relaySender({ store, epoch: generation.epoch, node: generation.nodeRank });
  return {
    add: (message) => {
      switch (message.kind) {
        case 'step':
        case 'timeline':
        case 'facts':
        case 'checkpoint':
        case 'profile':
          sender.send(message);
          return;
        case 'generation':
        case 'membership':
        case 'exit':
        case 'stopping':
        case 'process-memory':
          // This message concerns only this host.
          return;
        default:
          message satisfies never;
      }
    },
    close: () => sender.close(),
  };
}
