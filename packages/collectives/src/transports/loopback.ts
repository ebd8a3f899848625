import { ConfigError, messageLengthError, peerClosedError } from '@shardwise/core/spec';
import type { WatchedTransport } from './watched-transport.ts';

/** The messages that one rank has sent. */
export interface Traffic {
  readonly messages: number;
  readonly bytes: number;
  /**
   * The length of the longest chain of messages that ends in a message of this rank. Each message of a chain is
   * sent after the previous one was received. A message waits only for messages with its tag or a lower one.
   */
  readonly rounds: number;
  /** For each rank, how many of `bytes` were sent to it. */
  readonly bytesTo: readonly number[];
}

/** A transport between ranks of one thread. */
export interface LoopbackTransport extends WatchedTransport {
  readonly traffic: Traffic;
}

/**
 * The transports of all ranks of a world on one thread, for tests and for learning. The transport of rank r is
 * at index r.
 */
export function createLoopbackTransports(size: number): readonly LoopbackTransport[] {
  const ends: LoopbackEnd[] = [];
  for (let rank = 0; rank < size; rank++) ends.push(new LoopbackEnd(rank, ends, size));
  return ends;
}

interface Delivery {
  readonly bytes: Uint8Array;
  readonly round: number;
}

interface Receiver {
  readonly deliver: (delivery: Delivery) => void;
  readonly fail: (error: Error) => void;
}

/** Messages that have no receiver yet, or receivers that have no message yet. */
interface Mailbox {
  readonly deliveries: Delivery[];
  readonly receivers: Receiver[];
}

/** The lengths of the longest chains of messages that a rank has received, by tag. */
class LongestChains {
  /** Chains that are longer than those of all lower tags. Both numbers grow. */
  readonly #longer: { readonly tag: number; readonly length: number }[] = [];

  /** The length of the longest chain with this tag or a lower one. */
  upTo(tag: number): number {
    // Nearly always it is the last one, because later calls have larger tags.
    return this.#longer.findLast((chain) => chain.tag <= tag)?.length ?? 0;
  }

  add(tag: number, length: number): void {
    if (this.upTo(tag) >= length) return;
    const first = this.#longer.findLastIndex((chain) => chain.tag < tag) + 1;
    const end = this.#longer.findLastIndex((chain) => chain.length <= length) + 1;
    this.#longer.splice(first, Math.max(0, end - first), { tag, length });
  }
}

class LoopbackEnd implements LoopbackTransport {
  readonly specificationVersion = 1;
  readonly rank: number;
  readonly size: number;
  readonly ended: Promise<never>;
  readonly #end: (error: Error) => void;
  readonly #ends: readonly LoopbackEnd[];
  readonly #mailboxes = new Map<string, Mailbox>();
  readonly #bytesTo: number[];
  #closed: Error | undefined;
  #messages = 0;
  #rounds = 0;
  readonly #chains = new LongestChains();

  constructor(rank: number, ends: readonly LoopbackEnd[], size: number) {
    this.rank = rank;
    this.size = size;
    this.#ends = ends;
    this.#bytesTo = Array.from({ length: size }, () => 0);
    const { promise, reject } = Promise.withResolvers<never>();
    this.ended = promise;
    promise.catch(() => {});
    this.#end = reject;
  }

  get traffic(): Traffic {
    const bytesTo = [...this.#bytesTo];
    const bytes = bytesTo.reduce((sum, sent) => sum + sent, 0);
    return { messages: this.#messages, bytes, rounds: this.#rounds, bytesTo };
  }

  async send(to: number, tag: number, bytes: Uint8Array): Promise<void> {
    if (this.#closed !== undefined) throw this.#closed;
    const round = this.#chains.upTo(tag) + 1;
    const peer = this.#peer(to);
    this.#messages += 1;
    this.#rounds = Math.max(this.#rounds, round);
    this.#bytesTo[to] = (this.#bytesTo[to] ?? 0) + bytes.byteLength;
    peer.#take(`${this.rank}:${tag}`, { bytes: bytes.slice(), round });
  }

  async recv(from: number, tag: number, bytes: Uint8Array): Promise<void> {
    const key = `${from}:${tag}`;
    const mailbox = this.#mailbox(key);
    const coming = mailbox.deliveries.shift() ?? this.#next(mailbox, from);
    this.#removeEmpty(key, mailbox);
    // Even a message that is there already is awaited, so that what the rank does now comes before it.
    const delivery = await coming;
    this.#chains.add(tag, delivery.round);
    if (delivery.bytes.byteLength !== bytes.byteLength) {
      const { byteLength } = bytes;
      const label = { operation: 'recv', rank: this.rank, peer: from, tag, byteLength } as const;
      throw messageLengthError(label, delivery.bytes.byteLength);
    }
    bytes.set(delivery.bytes);
  }

  /** Closes this rank's transport. Peers can still receive what was sent before. */
  close(reason?: Error): void {
    if (this.#closed !== undefined) return;
    const error = peerClosedError(this.rank, reason);
    for (const end of this.#ends) {
      if (end === this || reason !== undefined) {
        end.#closed ??= error;
        end.#end(error);
      }
      for (const [key, { receivers }] of end.#mailboxes) {
        const isConcerned = end.#closed !== undefined || key.startsWith(`${this.rank}:`);
        if (isConcerned) for (const { fail } of receivers.splice(0)) fail(error);
      }
    }
  }

  #peer(rank: number): LoopbackEnd {
    const end = this.#ends[rank];
    if (end !== undefined) return end;
    throw new ConfigError(
      {
        asked: `A message between ranks ${this.rank} and ${rank}`,
        found: `the ranks are 0 to ${this.size - 1}`,
        todo: 'Pass a rank among them',
      },
      { rank, size: this.size },
    );
  }

  #next(mailbox: Mailbox, from: number): Promise<Delivery> {
    const closed = this.#closed ?? this.#peer(from).#closed;
    if (closed !== undefined) return Promise.reject(closed);
    return new Promise((deliver, fail) => mailbox.receivers.push({ deliver, fail }));
  }

  #take(key: string, delivery: Delivery): void {
    const mailbox = this.#mailbox(key);
    const receiver = mailbox.receivers.shift();
    if (receiver === undefined) mailbox.deliveries.push(delivery);
    else receiver.deliver(delivery);
    this.#removeEmpty(key, mailbox);
  }

  #mailbox(key: string): Mailbox {
    const known = this.#mailboxes.get(key);
    if (known !== undefined) return known;
    const mailbox: Mailbox = { deliveries: [], receivers: [] };
    this.#mailboxes.set(key, mailbox);
    return mailbox;
  }

  /** Each call of a group has tags of its own, so that mailboxes would become more and more. */
  #removeEmpty(key: string, { deliveries, receivers }: Mailbox): void {
    if (deliveries.length === 0 && receivers.length === 0) this.#mailboxes.delete(key);
  }
}
