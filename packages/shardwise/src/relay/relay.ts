import { z } from 'zod';
import { parseRankMessage, type RankMessage } from '../run-state/run-message.ts';
import { setTimeout as delay } from 'node:timers/promises';
import type { Store } from '@shardwise/core/extend';

/** Returns the key under which host `node` puts its `sequence`-th batch. */
function batchKey(epoch: number, node: number, sequence: number): string {
  return `relay/${epoch}/${node}/${sequence}`;
}

/** Messages of one host's ranks to the host that shows the run. */
interface RelayBatch {
  readonly messages: readonly RankMessage[];
  /** Whether no batch follows. */
  readonly isLast: boolean;
}

/** The store accepts values of up to 1 MiB. */
const MAX_BATCH_BYTES = 1_000_000;
const MAX_MESSAGES = 65_536;

const batchSchema = z.object({
  messages: z.array(z.unknown()).max(MAX_MESSAGES),
  isLast: z.boolean(),
});

/** The texts of numbers that JSON cannot express. A loss may have diverged. */
const words: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity,
  '-Infinity': -Infinity,
};
const figures = new Set(['loss', 'validationLoss', 'learningRate']);

function number(found: unknown): unknown {
  return typeof found === 'string' ? (words[found] ?? found) : found;
}

/** The reviver for JSON.parse. It turns these texts back into numbers in the fields that hold figures. */
function restore(key: string, found: unknown): unknown {
  if (figures.has(key)) return number(found);
  if (key !== 'metrics' || typeof found !== 'object' || found === null) return found;
  return Object.fromEntries(Object.entries(found).map(([name, value]) => [name, number(value)]));
}

export function encodeMessage(message: RankMessage): string {
  return JSON.stringify(message, (_, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value,
  );
}

export function encodeBatch(encoded: readonly string[], isLast: boolean): Uint8Array {
  return new TextEncoder().encode(`{"messages":[${encoded.join(',')}],"isLast":${isLast}}`);
}

/** Decodes a batch. Leaves out messages that no rank sends. Returns undefined if the bytes are not a batch. */
export function decodeBatch(bytes: Uint8Array): RelayBatch | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes), restore);
    const { messages, isLast } = batchSchema.parse(value);
    return { messages: messages.flatMap((message) => parseRankMessage(message) ?? []), isLast };
  } catch {
    return undefined;
  }
}

interface RelaySenderOptions {
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

interface ReceiveRelayOptions {
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
