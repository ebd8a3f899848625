import {
  type CollectiveError,
  ConfigError,
  messageLengthError,
  peerClosedError,
} from '@shardwise/core/spec';
import type { NativeCollectives } from '../group/selection/native-groups.ts';
import type { Handle } from './mpi-abi.ts';
import type { MpiCalls } from './mpi-calls.ts';
import type { NewRequest, RequestKind, Requests } from './mpi-requests.ts';

/** Longer messages go in fragments, because MPI counts in C ints. */
const MAX_MESSAGE_BYTES = 1 << 30;
/** Milliseconds that a rank's last messages may take longer than the notice that it has left. */
const GRACE_MS = 50;

/** MPI's communicator of one group, and what the ranks of the group send each other over it. */
export class MpiCommunicator implements NativeCollectives {
  readonly handle: Handle;
  readonly #calls: MpiCalls;
  readonly #requests: Requests;
  /** Maps the rank of each member in the world to its rank in the communicator. */
  readonly #ranks: ReadonlyMap<number, number>;
  readonly #worldRank: number;
  #isSpoilt = false;

  /** `members` has the rank in the world of each rank of the communicator. */
  constructor(calls: MpiCalls, requests: Requests, handle: Handle, members: readonly number[]) {
    this.#calls = calls;
    this.#requests = requests;
    this.handle = handle;
    this.#ranks = new Map(members.map((member, rank) => [member, rank]));
    this.#worldRank = members[calls.rank(handle)] ?? 0;
  }

  send(to: number, tag: number, bytes: Uint8Array): Promise<void> {
    return inFragments(bytes, (fragment) =>
      this.#requests.start({
        kind: 'send',
        owner: this,
        peer: to,
        memory: [fragment],
        start: (request) => this.#calls.send(fragment, this.#rankOf(to), tag, this.handle, request),
      }),
    );
  }

  /** Rejects with CollectiveMismatchError if a message of another length comes. */
  receive(from: number, tag: number, bytes: Uint8Array): Promise<void> {
    return inFragments(bytes, (fragment) =>
      this.#requests.start({
        kind: 'receive',
        owner: this,
        peer: from,
        memory: [fragment],
        start: (request) =>
          this.#calls.receive(fragment, this.#rankOf(from), tag, this.handle, request),
        mismatch: (receivedBytes) => {
          const { byteLength } = fragment;
          const rank = this.#worldRank;
          return messageLengthError({ rank, peer: from, tag, byteLength }, receivedBytes);
        },
      }),
    );
  }

  allGather(input: Uint8Array, output: Uint8Array): Promise<void> {
    if (input.byteLength > MAX_MESSAGE_BYTES) return Promise.reject(tooLongError(input));
    return this.#collective([input, output], (request) =>
      this.#calls.allGather(input, output, this.handle, request),
    );
  }

  broadcast(buffer: Uint8Array, root: number): Promise<void> {
    return inFragments(buffer, (fragment) =>
      this.#collective([fragment], (request) =>
        this.#calls.broadcast(fragment, root, this.handle, request),
      ),
    );
  }

  /**
   * Rejects requests that wait for `peer`, which has left. The notice of it was read at `leftAt`, in
   * milliseconds on the clock of performance.now().
   */
  failAbsent(peer: number, leftAt: number, now: number): void {
    const isMeant: Parameters<Requests['withdraw']>[1] = (request) =>
      request.peer === peer && now > Math.max(leftAt, request.issuedAt) + GRACE_MS;
    if (this.#requests.withdraw(this, isMeant, peerClosedError(peer, undefined)).found) {
      this.spoil();
    }
  }

  /** Whether all other members are among these ranks of the world. */
  hasNoOthersThan(worldRanks: readonly number[]): boolean {
    return [...this.#ranks.keys()].every(
      (member) => member === this.#worldRank || worldRanks.includes(member),
    );
  }

  /** Notes that there may be messages left over that nobody will receive. */
  spoil(): void {
    this.#isSpoilt = true;
  }

  /** Rejects all requests. Returns the kinds of those that MPI still works on. */
  abandon(error: CollectiveError): readonly RequestKind[] {
    const { found, left } = this.#requests.withdraw(this, () => true, error);
    if (found) this.spoil();
    return left;
  }

  /**
   * Gives the communicator back to MPI, unless messages are left over. With such messages MPICH would end the process.
   */
  free(): void {
    if (this.#isSpoilt || this.#calls.probe(this.handle) !== undefined) return;
    this.#calls.free(this.handle);
  }

  #collective(memory: readonly Uint8Array[], start: NewRequest['start']): Promise<void> {
    return this.#requests.start({
      kind: 'collective',
      owner: this,
      peer: undefined,
      memory,
      start,
    });
  }

  #rankOf(worldRank: number): number {
    const rank = this.#ranks.get(worldRank);
    if (rank !== undefined) return rank;
    throw new RangeError(`Rank ${worldRank} of the world is not in the group`);
  }
}

function tooLongError({ byteLength }: Uint8Array): ConfigError {
  return new ConfigError(
    {
      asked: `A native allGather of ${byteLength} bytes of each rank`,
      found: `MPI counts no more than ${MAX_MESSAGE_BYTES}`,
      todo: 'Do not set an algorithm for allGather',
    },
    { byteLength, maxBytes: MAX_MESSAGE_BYTES },
  );
}

/** Moves a message in fragments, because MPI cannot count more bytes at once. Messages of one tag arrive in order. */
function inFragments(
  bytes: Uint8Array,
  move: (fragment: Uint8Array) => Promise<void>,
): Promise<void> {
  if (bytes.byteLength <= MAX_MESSAGE_BYTES) return move(bytes);
  const count = Math.ceil(bytes.byteLength / MAX_MESSAGE_BYTES);
  const fragments = Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * MAX_MESSAGE_BYTES, (index + 1) * MAX_MESSAGE_BYTES),
  );
  return allOf(fragments.map(move));
}

async function allOf(moves: readonly Promise<void>[]): Promise<void> {
  await Promise.all(moves);
}
