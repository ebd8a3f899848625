import { CollectiveMismatchError, type CollectiveError } from '@shardwise/core/spec';
import type { NativeCollectives } from '../group/native-groups.ts';
import { peerClosedError } from '../call/failure.ts';
import type { Handle } from './mpi-abi.ts';
import { MpiError, type MpiCalls } from './mpi-calls.ts';
import type { NewRequest, OpenRequest, Requests } from './requests.ts';

/** MPI counts in C ints. */
const MAX_MESSAGE_BYTES = 1 << 30;
/** What a rank sent before it left may come a little later than the word that it has left. */
const GRACE_MS = 50;
const DONE: Promise<void> = Promise.resolve();

interface Pending {
  readonly request: OpenRequest;
  /** Rank of the world that it waits for; undefined: all. */
  readonly peer: number | undefined;
}

/** The ranks of one group as MPI sees them, and what they send each other. */
export class Communicator implements NativeCollectives {
  readonly handle: Handle;
  readonly #calls: MpiCalls;
  readonly #requests: Requests;
  /** By rank of the world, that of the communicator. */
  readonly #ranks: ReadonlyMap<number, number>;
  readonly #worldRank: number;
  readonly #pending = new Set<Pending>();
  #isSpoilt = false;

  /** `members`: by rank of the communicator, that of the world. */
  constructor(calls: MpiCalls, requests: Requests, handle: Handle, members: readonly number[]) {
    this.#calls = calls;
    this.#requests = requests;
    this.handle = handle;
    this.#ranks = new Map(members.map((member, rank) => [member, rank]));
    this.#worldRank = members[calls.rank(handle)] ?? 0;
  }

  send(to: number, tag: number, bytes: Uint8Array): Promise<void> {
    return inPieces(bytes, async (piece) => {
      await this.#start(to, {
        kind: 'send',
        memory: [piece],
        start: (request) => this.#calls.send(piece, this.#rankOf(to), tag, this.handle, request),
      });
    });
  }

  /** Rejects with CollectiveMismatchError where a message of another length comes. */
  receive(from: number, tag: number, bytes: Uint8Array): Promise<void> {
    return inPieces(bytes, async (piece) => {
      const received = await this.#receive(from, tag, piece);
      if (received !== piece.byteLength) throw this.#lengthError(from, tag, bytes, received);
    });
  }

  allGather(input: Uint8Array, output: Uint8Array): Promise<void> {
    return this.#collective([input, output], (request) =>
      this.#calls.allGather(input, output, this.handle, request),
    );
  }

  broadcast(buffer: Uint8Array, root: number): Promise<void> {
    return inPieces(buffer, (piece) =>
      this.#collective([piece], (request) =>
        this.#calls.broadcast(piece, root, this.handle, request),
      ),
    );
  }

  /** Rejects what waits for `peer`, which has left, as it was heard at `leftAt`. */
  failAbsent(peer: number, leftAt: number, now: number): void {
    for (const pending of this.#pending) {
      if (pending.peer !== peer) continue;
      if (now <= Math.max(leftAt, pending.request.issuedAt) + GRACE_MS) continue;
      this.#withdraw(pending, peerClosedError(peer, undefined));
    }
  }

  /** Whether all other members are among these ranks of the world. */
  hasNoOthersThan(worldRanks: readonly number[]): boolean {
    return [...this.#ranks.keys()].every(
      (member) => member === this.#worldRank || worldRanks.includes(member),
    );
  }

  /** Messages may be left over that nobody receives. */
  spoil(): void {
    this.#isSpoilt = true;
  }

  /** Rejects everything; whether MPI goes on with some of it. */
  abandon(error: CollectiveError): boolean {
    let isLeft = false;
    for (const pending of this.#pending) isLeft = this.#withdraw(pending, error) || isLeft;
    return isLeft;
  }

  /** Gives it back, if nothing is left over: else MPICH would end the process. */
  free(): void {
    if (this.#isSpoilt || this.#calls.probe(this.handle) !== undefined) return;
    this.#calls.free(this.handle);
  }

  #withdraw(pending: Pending, error: CollectiveError): boolean {
    this.#pending.delete(pending);
    this.spoil();
    const isLeft = this.#requests.withdraw(pending.request);
    pending.request.reject(error);
    return isLeft;
  }

  async #receive(from: number, tag: number, piece: Uint8Array): Promise<number> {
    try {
      return await this.#start(from, {
        kind: 'receive',
        memory: [piece],
        start: (request) =>
          this.#calls.receive(piece, this.#rankOf(from), tag, this.handle, request),
      });
    } catch (error) {
      if (!(error instanceof MpiError && error.isTruncated)) throw error;
      throw this.#lengthError(from, tag, piece, undefined);
    }
  }

  async #collective(memory: readonly Uint8Array[], start: NewRequest['start']): Promise<void> {
    await this.#start(undefined, { kind: 'collective', memory, start });
  }

  async #start(peer: number | undefined, what: NewRequest): Promise<number> {
    const started = this.#requests.start(what);
    if ('receivedBytes' in started) return started.receivedBytes;
    const pending = { request: started.request, peer };
    this.#pending.add(pending);
    try {
      return await started.done;
    } finally {
      this.#pending.delete(pending);
    }
  }

  #rankOf(worldRank: number): number {
    const rank = this.#ranks.get(worldRank);
    if (rank !== undefined) return rank;
    throw new RangeError(`Rank ${worldRank} of the world is not in the group`);
  }

  #lengthError(
    from: number,
    tag: number,
    { byteLength }: Uint8Array,
    receivedBytes: number | undefined,
  ): CollectiveError {
    return new CollectiveMismatchError(
      {
        asked: `A message of ${byteLength} bytes on rank ${this.#worldRank} from rank ${from}`,
        found: receivedBytes === undefined ? 'it has more' : `it has ${receivedBytes} bytes`,
        todo: 'Make both ranks pass buffers of one size',
      },
      { rank: this.#worldRank, from, tag },
    );
  }
}

/** Messages of one tag come in order, also those that are too long for one. */
function inPieces(bytes: Uint8Array, move: (piece: Uint8Array) => Promise<void>): Promise<void> {
  if (bytes.byteLength <= MAX_MESSAGE_BYTES) return move(bytes);
  const count = Math.ceil(bytes.byteLength / MAX_MESSAGE_BYTES);
  const pieces = Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * MAX_MESSAGE_BYTES, (index + 1) * MAX_MESSAGE_BYTES),
  );
  return Promise.all(pieces.map(move)).then(() => DONE);
}
