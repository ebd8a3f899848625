import { CollectiveAbortedError } from '@shardwise/core/spec';
import { peersOf } from '../algorithms/communicator.ts';
import { encodeRecord, recordFields } from '../call/record-codec.ts';
import type { CallRecord } from '../call/record.ts';
import type { GroupEnd } from './group-end.ts';

/** What a rank sends the others of a call. */
export interface Announcement {
  readonly record: CallRecord;
  readonly sequence: number;
  /** The number of the algorithm among those of the operation. */
  readonly algorithm: number;
}

interface CallAgreementEvents {
  readonly onAgreed: () => void;
  readonly onFailed: (error: unknown) => void;
}

/**
 * The records by which ranks agree that they make the same call: every rank sends every other rank which call it makes,
 * and by which algorithm. The object can serve a later call once all records have arrived and the call does not need them
 * any more.
 */
export class CallAgreement {
  /** What each rank has sent, as numbers: the encoded record, the algorithm, and the sequence number of its call. */
  readonly records: readonly Float64Array[];
  readonly #group: GroupEnd;
  readonly #fields: number;
  readonly #bytes: readonly Uint8Array[];
  readonly #arrived: boolean[];
  readonly #onArrival: readonly (() => void)[];
  readonly #onStep = (): void => this.#step();
  readonly #onFailure = (error: unknown): void => this.#events?.onFailed(error);
  /** A peer that leaves before it takes the record may have found that the ranks differ. Its own record tells why. */
  readonly #onUnsent = (error: unknown): void =>
    error instanceof CollectiveAbortedError ? this.#step() : this.#onFailure(error);
  readonly #peers: readonly number[];
  #events: CallAgreementEvents | undefined;
  /** The number of messages that are still on their way, in both directions. */
  #left = 0;

  constructor(group: GroupEnd) {
    this.#group = group;
    this.#peers = peersOf(group);
    this.#fields = recordFields(group.size);
    const length = this.#fields + 2;
    const all = new Float64Array(group.size * length);
    this.records = group.members.map((_, rank) => all.subarray(rank * length, (rank + 1) * length));
    this.#bytes = this.records.map(
      ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength),
    );
    this.#arrived = group.members.map(() => false);
    this.#onArrival = group.members.map((_, rank) => () => {
      this.#arrived[rank] = true;
      this.#step();
    });
  }

  begin({ record, sequence, algorithm }: Announcement, events: CallAgreementEvents): void {
    const { rank, size, transport, members, recordTag } = this.#group;
    const own = this.records[rank]!;
    encodeRecord(record, size, own);
    own[this.#fields] = algorithm;
    own[this.#fields + 1] = sequence;
    this.#events = events;
    this.#arrived.fill(false);
    this.#left = 2 * this.#peers.length;
    for (const peer of this.#peers) {
      const sent = transport.send(members[peer]!, recordTag, this.#bytes[rank]!);
      sent.then(this.#onStep, this.#onUnsent);
    }
    for (const peer of this.#peers) {
      const received = transport.recv(members[peer]!, recordTag, this.#bytes[peer]!);
      received.then(this.#onArrival[peer], this.#onFailure);
    }
    if (this.#left === 0) events.onAgreed();
  }

  /** The number of each rank's algorithm. */
  algorithms(): readonly number[] {
    return this.records.map((record) => record[this.#fields] ?? -1);
  }

  /** The sequence number of each rank's call. */
  sequences(): readonly number[] {
    return this.records.map((record) => record[this.#fields + 1] ?? -1);
  }

  /** The ranks whose record has not come, ascending. */
  missing(): readonly number[] {
    return this.#peers.filter((rank) => this.#arrived[rank] !== true).sort((a, b) => a - b);
  }

  #step(): void {
    this.#left -= 1;
    if (this.#left === 0) this.#events?.onAgreed();
  }
}
