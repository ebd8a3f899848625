import type { Peer } from './peer.ts';

/** A round, and what has arrived in it. */
export class Round {
  readonly number: number;
  /** Who was there when it began, and is still there. Empty: it has not begun. */
  readonly group: Set<Peer>;
  /** The bytes of an update. */
  readonly bytes: number;
  readonly #received = new Map<Peer, number>();
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

  /** Counts a piece. Returns false if it does not follow the one before, or is too long. */
  receive(peer: Peer, offset: number, length: number, nowMs: number): boolean {
    const received = this.#received.get(peer) ?? 0;
    const next = received + length;
    if (offset !== received || next > this.bytes) return false;
    this.#received.set(peer, next);
    if (next === this.bytes) {
      this.#whole.add(peer);
      this.#firstWholeMs ??= nowMs;
    }
    return true;
  }
}
