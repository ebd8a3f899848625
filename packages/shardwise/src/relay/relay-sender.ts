import { setTimeout as delay } from 'node:timers/promises';
import type { Store } from '@shardwise/core/extend';
import type { RankMessage } from '../run-state/run-message.ts';
import { batchKey, encodeBatch, encodeMessage, MAX_BATCH_BYTES } from './relay-batch.ts';

export interface RelaySenderOptions {
  readonly store: Store;
  readonly epoch: number;
  /** The place of this host. */
  readonly node: number;
}

const BATCH_MS = 100;
const CLOSE_MS = 1000;

/** Sends the messages of this host's ranks through the store to the host that shows the run. */
export class RelaySender {
  readonly #options: RelaySenderOptions;
  #queue: string[] = [];
  #queuedBytes = 0;
  #sequence = 0;
  #timer: NodeJS.Timeout | undefined;
  #sent: Promise<void> = Promise.resolve();

  constructor(options: RelaySenderOptions) {
    this.#options = options;
  }

  send(message: RankMessage): void {
    const encoded = encodeMessage(message);
    const byteLength = Buffer.byteLength(encoded) + 1;
    // The run can do without a message that is too large for the store, which is the timeline of a step.
    if (byteLength > MAX_BATCH_BYTES) return;
    if (this.#queuedBytes + byteLength > MAX_BATCH_BYTES) this.#flush(false);
    this.#queue.push(encoded);
    this.#queuedBytes += byteLength;
    this.#timer ??= setTimeout(() => this.#flush(false), BATCH_MS);
  }

  /** Call this when the ranks have ended. It does not wait for a store that does not answer. */
  async close(): Promise<void> {
    this.#flush(true);
    const limit = new AbortController();
    const { signal } = limit;
    await Promise.race([this.#sent, delay(CLOSE_MS, undefined, { signal }).catch(() => undefined)]);
    limit.abort();
  }

  #flush(isLast: boolean): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const { store, epoch, node } = this.#options;
    const batch = encodeBatch(this.#queue, isLast);
    const key = batchKey(epoch, node, this.#sequence);
    this.#sequence += 1;
    this.#queue = [];
    this.#queuedBytes = 0;
    // If the store is lost, so is the run, which is reported elsewhere.
    this.#sent = this.#sent.then(() => store.set(key, batch)).catch(() => undefined);
  }
}
