import { CallQueue, type Movement } from '../call/call-queue.ts';
import type { LateRanks } from '../call/failure.ts';
import type { IssuedCall } from '../call/issued-call.ts';
import type { Transfer } from '../call/calls.ts';
import { messageTag, type GroupEnd } from './group-end.ts';
import type { MovementOwner } from './transport-collectives.ts';

/** Moves one rank's sends and receives of one group. They wait neither for each other nor for collectives. */
export class TransportMessages implements Movement<Transfer, undefined> {
  readonly queue: CallQueue<Transfer, undefined>;
  readonly #group: GroupEnd;
  readonly #owner: MovementOwner;

  constructor(group: GroupEnd, owner: MovementOwner) {
    this.#group = group;
    this.#owner = owner;
    this.queue = new CallQueue(group.rank, this, { isTimed: true });
  }

  begin(): undefined {}

  move(issued: IssuedCall<Transfer, undefined>): void {
    const { operation, peer, tag, buffer } = issued.call;
    const { transport, members } = this.#group;
    const done = transport[operation](members[peer]!, messageTag(this.#group, tag), buffer.bytes);
    done.then(
      () => this.queue.settle(issued),
      (error: unknown) => this.#owner.fail(this.queue, issued, error),
    );
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
