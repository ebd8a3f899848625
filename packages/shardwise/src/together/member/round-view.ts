import type { MemberUpdate } from '@shardwise/strategies';
import type { NamedMember } from '../protocol/messages.ts';
import type { Piece } from '../protocol/pieces.ts';

/** Data that arrives in pieces, one behind the other. */
export class Arriving {
  readonly bytes: Uint8Array;
  #received = 0;

  constructor(length: number) {
    this.bytes = new Uint8Array(length);
  }

  get isWhole(): boolean {
    return this.#received === this.bytes.byteLength;
  }

  /** Returns false for a piece that does not follow the one before, or is too long. */
  receive({ offset, bytes }: Piece): boolean {
    if (offset !== this.#received || offset + bytes.byteLength > this.bytes.byteLength)
      return false;
    this.bytes.set(bytes, offset);
    this.#received += bytes.byteLength;
    return true;
  }
}

/** What a member has got of a round. */
export class RoundView {
  readonly #bytes: number;
  readonly #updates = new Map<number, Arriving>();
  readonly #direct = new Map<number, Arriving>();
  #own: { readonly number: number; readonly bytes: Uint8Array } | null = null;
  #listed: readonly NamedMember[] | null = null;

  /** `bytes` are those of an update. */
  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  get hasEnded(): boolean {
    return this.#listed !== null;
  }

  receive(piece: Piece): boolean {
    return this.#receive(this.#updates, piece).isNew;
  }

  /** Takes a piece from its member itself. Returns the update when it is whole, or null. */
  receiveDirectly(piece: Piece): Uint8Array | null {
    const { isNew, update } = this.#receive(this.#direct, piece);
    return isNew && update.isWhole ? update.bytes : null;
  }

  #receive(
    updates: Map<number, Arriving>,
    piece: Piece,
  ): { readonly isNew: boolean; readonly update: Arriving } {
    const update = updates.get(piece.member) ?? new Arriving(this.#bytes);
    updates.set(piece.member, update);
    return { isNew: update.receive(piece), update };
  }

  /** This member has sent its own update. */
  keepOwn(number: number, bytes: Uint8Array): void {
    this.#own = { number, bytes };
  }

  /** The round has the updates of these members. */
  end(listed: readonly NamedMember[]): void {
    this.#listed = listed;
  }

  /** The updates of the round after its end. Null if one of them has not arrived. */
  updates(): readonly MemberUpdate[] | null {
    const updates = (this.#listed ?? []).map(({ number, name }): MemberUpdate | null => {
      if (this.#own?.number === number) {
        return { number, name, isOwn: true, bytes: this.#own.bytes };
      }
      // The coordinator passes an update on if what came directly is not what its member has committed to.
      const update = [this.#updates, this.#direct]
        .map((of) => of.get(number))
        .find((each) => each?.isWhole);
      return update === undefined ? null : { number, name, isOwn: false, bytes: update.bytes };
    });
    const whole = updates.filter((each) => each !== null);
    return whole.length === updates.length ? whole : null;
  }
}
