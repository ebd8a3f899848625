/**
 * What an algorithm is given: the ranks that take part in one call, and messages between them that are not
 * taken for those of other calls. MPI has the word for it.
 */
export interface Communicator {
  readonly rank: number;
  readonly size: number;
  /** The ranks of each host, ascending. The hosts stand in the order of their first ranks. */
  readonly hosts: readonly (readonly number[])[];
  /** Settles when `bytes` may be reused. Messages of one stream (default: 0) arrive in order. */
  send(to: number, bytes: Uint8Array, stream?: Stream): Promise<void>;
  /** Fills `bytes` with the next message from that rank in that stream. */
  recv(from: number, bytes: Uint8Array, stream?: Stream): Promise<void>;
}

/**
 * Messages of different streams do not wait for each other. Algorithms send contributions in stream 0 and
 * results in stream 1.
 */
export type Stream = 0 | 1;

/** Says when all ranks are known to have made the call, to algorithms that may begin before. */
export interface Agreement {
  /**
   * Settles when all ranks are known to have made the call. An algorithm sends what this rank contributes at
   * once, and writes to the buffer only after this.
   */
  readonly agreed: Promise<void>;
}

/** The agreement for a call that all ranks have made already. */
export const agreedBefore: Agreement = { agreed: Promise.resolve() };

/** The other ranks, beginning with the next one, so that ranks do not all send to the same rank first. */
export function peersOf({ rank, size }: Pick<Communicator, 'rank' | 'size'>): readonly number[] {
  return Array.from({ length: size - 1 }, (_, index) => (rank + 1 + index) % size);
}

/**
 * A communicator of some of the ranks, among them this one. Its rank i is rank `members[i]` of the given one. `hosts`
 * are as in Communicator. By default all members are on one host.
 */
export function subCommunicator(
  communicator: Communicator,
  members: readonly number[],
  hosts: Communicator['hosts'] = [members.map((_, rank) => rank)],
): Communicator {
  const outerRank = (rank: number): number => members[rank] ?? communicator.rank;
  return {
    rank: members.indexOf(communicator.rank),
    size: members.length,
    hosts,
    send: (to, bytes, stream) => communicator.send(outerRank(to), bytes, stream),
    recv: (from, bytes, stream) => communicator.recv(outerRank(from), bytes, stream),
  };
}
