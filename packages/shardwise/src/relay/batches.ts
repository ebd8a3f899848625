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

interface Encoded {
  readonly text: string;
  readonly byteLength: number;
}

/**
 * Sends messages of this host through the store to another host. One batch is under way at a time, and what is sent
 * meanwhile goes with the next one. So a slow link has larger batches, and messages do not come later and later.
 */
export class BatchSender {
  /** Settles with the reason when the store refuses a batch. None follows it. */
  readonly failed: Promise<unknown>;
  readonly #fail: (reason: unknown) => void;
  readonly #route: BatchRoute;
  readonly #delayMs: number;
  #queue: Encoded[] = [];
  #queuedBytes = 0;
  /** The number of batches that the store has accepted. */
  #sequence = 0;
  #timer: NodeJS.Timeout | undefined;
  /** When the timer ends. */
  #dueMs = Infinity;
  /** Whether what is in the queue goes when no other batch is under way. */
  #isDue = false;
  /** Whether nothing more is accepted. */
  #isOver = false;
  #sent: Promise<void> | undefined;

  /** `delayMs`: how long a message may wait for others that go with it, if `send` does not say it. */
  constructor(route: BatchRoute, delayMs: number) {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    this.failed = promise;
    this.#fail = resolve;
    this.#route = route;
    this.#delayMs = delayMs;
  }

  /** Sends a message after those before it, also after those that might wait longer. Does nothing after `close`. */
  send(message: object, delayMs: number = this.#delayMs): void {
    if (this.#isOver) return;
    const text = encodeMessage(message);
    const byteLength = Buffer.byteLength(text) + 1;
    // The run can do without a message that is too large for the store, which is the timeline of a step.
    if (byteLength > MAX_BATCH_BYTES) return;
    this.#queue.push({ text, byteLength });
    this.#queuedBytes += byteLength;
    if (this.#queuedBytes > MAX_BATCH_BYTES) this.#flush();
    else this.#flushWithin(delayMs);
  }

  /** Sends what is left, and that nothing follows. It does not wait for a store that does not answer. */
  async close(): Promise<void> {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#flush();
    }
    await withinLimit(this.#sent);
  }

  /**
   * Sends nothing more, and deletes what nobody has received. Batches are received in order, so these are the last ones. It
   * does not wait for a store that does not answer.
   */
  async discard(): Promise<void> {
    clearTimeout(this.#timer);
    this.#isOver = true;
    this.#isDue = false;
    this.#queue = [];
    const discarded = (async (): Promise<void> => {
      await this.#sent;
      let sequence = this.#sequence - 1;
      while (sequence >= 0 && (await deleteBatch(this.#route, sequence))) sequence -= 1;
    })();
    await withinLimit(discarded);
  }

  #flushWithin(delayMs: number): void {
    const dueMs = performance.now() + delayMs;
    if (this.#isDue || dueMs >= this.#dueMs) return;
    clearTimeout(this.#timer);
    this.#dueMs = dueMs;
    this.#timer = setTimeout(() => this.#flush(), delayMs);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#dueMs = Infinity;
    this.#isDue = true;
    this.#sent ??= this.#drain();
  }

  /** Sends one batch after another while messages are due. */
  async #drain(): Promise<void> {
    while (this.#isDue) {
      const taken = this.#take();
      this.#isDue = this.#queue.length > 0;
      const batch = encodeBatch(taken, this.#isOver && !this.#isDue);
      try {
        await this.#route.store.set(batchKey(this.#route, this.#sequence), batch);
      } catch (error) {
        // The receiver waits for this batch, and would never hear what came after it.
        this.#isOver = true;
        this.#isDue = false;
        this.#queue = [];
        this.#fail(error);
        return;
      }
      this.#sequence += 1;
    }
    this.#sent = undefined;
  }

  /** Takes as many messages from the queue as go into one batch. */
  #take(): readonly string[] {
    let count = 0;
    let bytes = 0;
    for (const { byteLength } of this.#queue) {
      if (count === MAX_MESSAGES || bytes + byteLength > MAX_BATCH_BYTES) break;
      count += 1;
      bytes += byteLength;
    }
    this.#queuedBytes -= bytes;
    return this.#queue.splice(0, count).map(({ text }) => text);
  }
}

/**
 * Why no message follows: the last one has come, the signal or the loss of the store has ended the wait, or something else
 * than a batch has come.
 */
export type BatchesEnd = 'last' | 'given up' | 'broken';

/**
 * Receives the messages of another host, which the caller checks. Settles when no message follows. What comes after that
 * is deleted as far as it is there.
 */
export async function receiveBatches(
  route: BatchRoute,
  signal: AbortSignal,
  onMessage: (message: unknown) => void,
): Promise<BatchesEnd> {
  const { store } = route;
  let sequence = 0;
  for (; !signal.aborted; sequence += 1) {
    const key = batchKey(route, sequence);
    const bytes = await store.get(key, { timeoutMs: Infinity, signal }).catch(() => undefined);
    if (bytes === undefined) break;
    await deleteBatch(route, sequence);
    const batch = decodeBatch(bytes);
    if (batch === undefined) return 'broken';
    for (const message of batch.messages) onMessage(message);
    if (batch.isLast) return 'last';
  }
  while (await deleteBatch(route, sequence)) sequence += 1;
  return 'given up';
}

/** Waits for an answer of the store, but not for long. */
async function withinLimit(answered: Promise<void> | undefined): Promise<void> {
  const limit = new AbortController();
  const { signal } = limit;
  await Promise.race([answered, delay(CLOSE_MS, undefined, { signal }).catch(() => undefined)]);
  limit.abort();
}

/** Deletes a batch. Returns whether it was there. A store that has ended has none. */
function deleteBatch(route: BatchRoute, sequence: number): Promise<boolean> {
  return route.store.delete(batchKey(route, sequence)).catch(() => false);
}
