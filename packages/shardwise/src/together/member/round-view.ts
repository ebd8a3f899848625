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
    const update = this.#updates.get(piece.member) ?? new Arriving(this.#bytes);
    this.#updates.set(piece.member, update);
    return update.receive(piece);
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
      const update = this.#updates.get(number);
      return update?.isWhole ? { number, name, isOwn: false, bytes: update.bytes } : null;
    });
    const whole = updates.filter((each) => each !== null);
    return whole.length === updates.length ? whole : null;
  }
}
