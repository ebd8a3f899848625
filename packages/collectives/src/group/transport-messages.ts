import { CallQueue, type Movement } from '../call/call-queue.ts';
import { callsDifferError, type LateRanks, SAME_LINES } from '../call/failure.ts';
import type { IssuedCall } from '../call/issued-call.ts';
import { sidesOfMessage, type Transfer } from '../call/calls.ts';
import { messageTag, type GroupEnd } from './group-end.ts';
import type { GroupSettings, MovementOwner } from './transport-collectives.ts';

/** The length of the hash at the end of a message. */
const HASH_BYTES = 4;

/** Moves one rank's sends and receives of one group. They wait neither for each other nor for collectives. */
export class TransportMessages implements Movement<Transfer, undefined> {
  readonly queue: CallQueue<Transfer, undefined>;
  readonly #group: GroupEnd;
  readonly #owner: MovementOwner;
  /** Whether both ends of a message compare what it is. */
  readonly #verifies: boolean;

  constructor(group: GroupEnd, { verify }: Pick<GroupSettings, 'verify'>, owner: MovementOwner) {
    this.#group = group;
    this.#verifies = verify;
    this.#owner = owner;
    this.queue = new CallQueue(group.rank, this, { isTimed: true });
  }

  begin(): undefined {}

  move(issued: IssuedCall<Transfer, undefined>): void {
    const done =
      issued.call.identity === undefined || !this.#verifies
        ? this.#transfer(issued.call, issued.call.buffer.bytes)
        : this.#transferIdentified(issued, issued.call.identity.hash);
    done.then(
      () => this.queue.settle(issued),
      (error: unknown) => this.#owner.fail(this.queue, issued, error),
    );
  }

  #transfer({ operation, peer, tag }: Transfer, bytes: Uint8Array): Promise<void> {
    const { transport, members } = this.#group;
    return transport[operation](members[peer]!, messageTag(this.#group, tag), bytes);
  }

  /** Moves a message that ends with a hash of what the call is. Rejects if the sender's is another one. */
  async #transferIdentified(
    { call, label }: IssuedCall<Transfer, undefined>,
    hash: number,
  ): Promise<void> {
    const { bytes } = call.buffer;
    const message = new Uint8Array(bytes.byteLength + HASH_BYTES);
    const end = new DataView(message.buffer, bytes.byteLength);
    if (call.operation === 'send') {
      message.set(bytes);
      end.setUint32(0, hash, true);
    }
    await this.#transfer(call, message);
    if (call.operation === 'send') return;
    if (end.getUint32(0, true) !== hash) {
      throw callsDifferError(label, sidesOfMessage(this.#group.rank, call), SAME_LINES);
    }
    bytes.set(message.subarray(0, bytes.byteLength));
  }

  isMoving(): boolean {
    return true;
  }

  late({ call: { peer } }: IssuedCall<Transfer, undefined>): LateRanks {
    return { missing: [peer], slow: [], awaited: [] };
  }

  abort(reason: unknown): void {
    this.#owner.abort(reason);
  }
}
