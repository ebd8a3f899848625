import { setTimeout as delay } from 'node:timers/promises';
import type { Store } from '@shardwise/core/extend';
import { z } from 'zod';

/** Messages of one host to another, in the order in which they were sent. */
interface Batch {
  readonly messages: readonly unknown[];
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

export function encodeMessage(message: object): string {
  return JSON.stringify(message, (_, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value,
  );
}

export function encodeBatch(encoded: readonly string[], isLast: boolean): Uint8Array {
  return new TextEncoder().encode(`{"messages":[${encoded.join(',')}],"isLast":${isLast}}`);
}

/** Decodes a batch. Returns undefined if the bytes are not a batch. */
export function decodeBatch(bytes: Uint8Array): Batch | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes), restore);
    return batchSchema.parse(value);
  } catch {
    return undefined;
  }
}

/** Where one host puts its batches for another one: under this prefix of the keys of a store. */
export interface BatchRoute {
  readonly store: Store;
  readonly prefix: string;
}

const batchKey = ({ prefix }: BatchRoute, sequence: number): string => `${prefix}/${sequence}`;

const CLOSE_MS = 1000;

/** Sends messages of this host through the store to another host. */
export class BatchSender {
  readonly #route: BatchRoute;
  readonly #delayMs: number;
  #queue: string[] = [];
  #queuedBytes = 0;
  #sequence = 0;
  #timer: NodeJS.Timeout | undefined;
  #sent: Promise<void> = Promise.resolve();

  /** `delayMs`: how long a message may wait for others that go with it. */
  constructor(route: BatchRoute, delayMs: number) {
    this.#route = route;
    this.#delayMs = delayMs;
  }

  send(message: object): void {
    const encoded = encodeMessage(message);
    const byteLength = Buffer.byteLength(encoded) + 1;
    // The run can do without a message that is too large for the store, which is the timeline of a step.
    if (byteLength > MAX_BATCH_BYTES) return;
    if (this.#queuedBytes + byteLength > MAX_BATCH_BYTES) this.#flush(false);
    this.#queue.push(encoded);
    this.#queuedBytes += byteLength;
    this.#timer ??= setTimeout(() => this.#flush(false), this.#delayMs);
  }

  /** Sends what is left, and that nothing follows. It does not wait for a store that does not answer. */
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
    const batch = encodeBatch(this.#queue, isLast);
    const key = batchKey(this.#route, this.#sequence);
    this.#sequence += 1;
    this.#queue = [];
    this.#queuedBytes = 0;
    // If the store is lost, so is the run, which is reported elsewhere.
    this.#sent = this.#sent.then(() => this.#route.store.set(key, batch)).catch(() => undefined);
  }
}

/**
 * Receives the messages of another host, which the caller checks. Settles after the last message, when the signal aborts,
 * or when something else than a batch comes.
 */
export async function receiveBatches(
  route: BatchRoute,
  signal: AbortSignal,
  onMessage: (message: unknown) => void,
): Promise<void> {
  const { store } = route;
  for (let sequence = 0; !signal.aborted; sequence += 1) {
    const key = batchKey(route, sequence);
    // The signal or the loss of the store ends the wait. In both cases no message follows.
    const bytes = await store.get(key, { timeoutMs: Infinity, signal }).catch(() => undefined);
    if (bytes === undefined) return;
    await store.delete(key).catch(() => undefined);
    const batch = decodeBatch(bytes);
    for (const message of batch?.messages ?? []) onMessage(message);
    if (batch === undefined || batch.isLast) return;
  }
}
