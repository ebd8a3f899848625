import { MAX_DIRECT } from '../protocol/direct-link.ts';
import type { Peer } from './peer.ts';

/** The texts that one end of a connection may send to make it: a few for each network of its machine. */
const MAX_SIGNALS = 256;

/**
 * Introduces members that can reach each other directly, and keeps who says that it does. The coordinator believes it only
 * if both say so.
 */
export class Introductions {
  readonly #capable = new Set<Peer>();
  readonly #reached = new Map<Peer, Set<Peer>>();
  readonly #signals = new Map<Peer, Map<Peer, number>>();

  /** A member has come. It begins to connect with those who are there. */
  add(peer: Peer): void {
    if (!peer.isDirect || this.#capable.size >= MAX_DIRECT) return;
    for (const other of this.#capable) {
      other.tell({ kind: 'meet', number: peer.number, begins: false });
      peer.tell({ kind: 'meet', number: other.number, begins: true });
    }
    this.#capable.add(peer);
  }

  remove(peer: Peer): void {
    this.#capable.delete(peer);
    for (const pairs of [this.#reached, this.#signals]) {
      pairs.delete(peer);
      for (const others of pairs.values()) others.delete(peer);
    }
  }

  /** Passes on a text. More than are needed are left out. */
  signal(peer: Peer, to: number, text: string): void {
    const other = this.#capableOf(to);
    if (other === undefined || !this.#capable.has(peer)) return;
    const counts = this.#signals.get(peer) ?? new Map<Peer, number>();
    const count = (counts.get(other) ?? 0) + 1;
    this.#signals.set(peer, counts.set(other, count));
    if (count <= MAX_SIGNALS) other.tell({ kind: 'signal', from: peer.number, text });
  }

  /** A member says whether it reaches another one. */
  linked(peer: Peer, to: number, isOpen: boolean): void {
    const other = this.#capableOf(to);
    if (other === undefined || !this.#capable.has(peer)) return;
    const reached = this.#reached.get(peer) ?? new Set();
    this.#reached.set(peer, reached);
    if (isOpen) reached.add(other);
    else reached.delete(other);
  }

  /** Two members do not reach each other after all. */
  unlink(peer: Peer, other: Peer): void {
    this.#reached.get(peer)?.delete(other);
    this.#reached.get(other)?.delete(peer);
  }

  areLinked(peer: Peer, other: Peer): boolean {
    return (
      this.#reached.get(peer)?.has(other) === true && this.#reached.get(other)?.has(peer) === true
    );
  }

  /** How a member is reached by the others who are there. */
  wayOf(peer: Peer, others: readonly Peer[]): 'direct' | 'relay' | 'both' {
    const rest = others.filter((other) => other !== peer);
    const direct = rest.filter((other) => this.areLinked(peer, other)).length;
    return direct === 0 ? 'relay' : direct === rest.length ? 'direct' : 'both';
  }

  #capableOf(number: number): Peer | undefined {
    return [...this.#capable].find((each) => each.number === number);
  }
}
