import { createHash, type Hash } from 'node:crypto';
import type { Commit } from '../protocol/messages.ts';
import type { Peer } from './peer.ts';

/** An update that goes from member to member. */
interface DirectUpdate {
  readonly committedMs: number;
  /** Who has it. */
  readonly reached: Set<Peer>;
  /** To whom the coordinator passes it on now. Null: it does not get it. */
  pass: ReadonlySet<Peer> | null;
}

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
  readonly #directly = new Map<Peer, DirectUpdate>();
  readonly #claims = new Map<Peer, Map<Peer, string>>();
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

  /** A member says what its update is. Returns false if it has said so already, or pieces of it have arrived. */
  commit(peer: Peer, commit: Commit, nowMs: number): boolean {
    if (this.#received.has(peer) || this.#directly.has(peer)) return false;
    peer.commit = commit;
    if (peer.isDirect) {
      this.#directly.set(peer, { committedMs: nowMs, reached: new Set(), pass: null });
    }
    return true;
  }

  /** Members of the group whose updates go from member to member, and do not have all reached yet. */
  get underWay(): readonly Peer[] {
    return [...this.#directly.keys()].filter(
      (peer) => this.group.has(peer) && !this.#whole.has(peer),
    );
  }

  /** For how long an update has gone from member to member. */
  elapsedMs(peer: Peer, nowMs: number): number {
    return nowMs - (this.#directly.get(peer)?.committedMs ?? nowMs);
  }

  /** Who of some members does not have an update yet. */
  lacking(peer: Peer, others: readonly Peer[]): readonly Peer[] {
    const reached = this.#directly.get(peer)?.reached;
    return others.filter((other) => other !== peer && reached?.has(other) !== true);
  }

  /** A member says that it has the update of another one, and its hash. The other one may not have committed to it yet. */
  claim(peer: Peer, by: Peer, hash: string): void {
    const claims = this.#claims.get(peer) ?? new Map<Peer, string>();
    this.#claims.set(peer, claims.set(by, hash));
  }

  /** Takes what others say of an update to which its member has committed. Returns those who have another one. */
  takeClaims(peer: Peer): readonly Peer[] {
    const claims = [...(this.#claims.get(peer) ?? [])];
    this.#claims.delete(peer);
    const reached = this.#directly.get(peer)?.reached;
    for (const [by, hash] of claims) if (hash === peer.commit?.hash) reached?.add(by);
    return claims.flatMap(([by, hash]) => (hash === peer.commit?.hash ? [] : [by]));
  }

  /** All have the update of a member. */
  complete(peer: Peer, nowMs: number): void {
    this.#whole.add(peer);
    this.#firstWholeMs ??= nowMs;
  }

  /** The coordinator gets an update after all, and passes it on to some. Returns false if it does so already. */
  beginPass(peer: Peer, to: readonly Peer[]): boolean {
    const update = this.#directly.get(peer);
    if (update === undefined || update.pass !== null) return false;
    update.pass = new Set(to);
    this.#received.delete(peer);
    this.#hashes.delete(peer);
    return true;
  }

  /** Whether what a member sends here is passed on to another one. */
  isPassedTo(peer: Peer, other: Peer): boolean {
    return !peer.isDirect || this.#directly.get(peer)?.pass?.has(other) === true;
  }

  /**
   * Counts a piece. Returns false if it does not follow the one before, or is too long, and for an update that is not the
   * one that its member has committed to.
   */
  receive(peer: Peer, offset: number, bytes: Uint8Array, nowMs: number): boolean {
    const received = this.#received.get(peer) ?? 0;
    const next = received + bytes.byteLength;
    if (offset !== received || next > this.bytes) return false;
    if (peer.isDirect && !this.#isAsked(peer)) return false;
    this.#received.set(peer, next);
    if (!this.#isAsCommitted(peer, bytes, next === this.bytes)) return false;
    if (next < this.bytes) return true;
    const update = this.#directly.get(peer);
    if (update === undefined) this.complete(peer, nowMs);
    else {
      for (const other of update.pass ?? []) update.reached.add(other);
      update.pass = null;
    }
    return true;
  }

  #isAsked(peer: Peer): boolean {
    const pass = this.#directly.get(peer)?.pass ?? null;
    return pass !== null;
  }

  #isAsCommitted(peer: Peer, bytes: Uint8Array, isWhole: boolean): boolean {
    if (peer.commit?.round !== this.number) return true;
    const hash = this.#hashes.get(peer) ?? createHash('sha256');
    this.#hashes.set(peer, hash.update(bytes));
    return !isWhole || hash.digest('hex') === peer.commit.hash;
  }
}
