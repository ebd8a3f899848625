import { createHash, type Hash } from 'node:crypto';
import type { Commit } from '../protocol/messages.ts';
import type { Peer } from './peer.ts';

/** A round, and what has arrived in it. */
export class Round {
  readonly number: number;
  /** Who was there when it began, and is still there. Empty: it has not begun. */
  readonly group: Set<Peer>;
  /** The bytes of an update. */
  readonly bytes: number;
  readonly #received = new Map<Peer, number>();
  readonly #hashes = new Map<Peer, Hash>();
  readonly #whole = new Set<Peer>();
  #firstWholeMs: number | null = null;

  constructor(number: number, bytes: number, group: Iterable<Peer>) {
    this.number = number;
    this.bytes = bytes;
    this.group = new Set(group);
  }

  /** When the first update was complete. Null: none is. */
  get firstWholeMs(): number | null {
    return this.#firstWholeMs;
  }

  /** Those of whom all members have the update, in the order of their numbers. They may have left meanwhile. */
  get whole(): readonly Peer[] {
    return [...this.#whole].toSorted((a, b) => a.number - b.number);
  }

  /** Whether nobody is left whose update could still arrive. */
  get isComplete(): boolean {
    return this.group.isSubsetOf(this.#whole);
  }

  /** A member says what its update is. Returns false if pieces of it have arrived already. */
  commit(peer: Peer, commit: Commit): boolean {
    if (this.#received.has(peer)) return false;
    peer.commit = commit;
    return true;
  }

  /**
   * Counts a piece. Returns false if it does not follow the one before, or is too long, and for an update that is not the
   * one that its member has committed to.
   */
  receive(peer: Peer, offset: number, bytes: Uint8Array, nowMs: number): boolean {
    const received = this.#received.get(peer) ?? 0;
    const next = received + bytes.byteLength;
    if (offset !== received || next > this.bytes) return false;
    this.#received.set(peer, next);
    if (!this.#isAsCommitted(peer, bytes, next === this.bytes)) return false;
    if (next === this.bytes) {
      this.#whole.add(peer);
      this.#firstWholeMs ??= nowMs;
    }
    return true;
  }

  #isAsCommitted(peer: Peer, bytes: Uint8Array, isWhole: boolean): boolean {
    if (peer.commit?.round !== this.number) return true;
    const hash = this.#hashes.get(peer) ?? createHash('sha256');
    this.#hashes.set(peer, hash.update(bytes));
    return !isWhole || hash.digest('hex') === peer.commit.hash;
  }
}
