import { MAX_TAG } from '../call/checks.ts';
import type { Handle } from './mpi-abi.ts';
import type { HandleMemory, MpiCalls } from './mpi-calls.ts';

/** Tags of the user's messages are below MAX_TAG, those of the collectives' data above it. */
const CALLS = 1 << 14;
const PHASES = 2;

/** MPI counts in C ints. */
export const MAX_MESSAGE_BYTES: number = 1 << 30;

/** Something that MPI does in the background, and the memory that it does it with. */
export interface Request {
  /** Lets MPI work, and throws what has gone wrong. */
  isDone(): boolean;
}

/** The messages of one collective call. */
export interface CallWire {
  readonly rank: number;
  readonly size: number;
  /** At most MAX_MESSAGE_BYTES, as `receive`. Two messages of one phase arrive in order. */
  send(to: number, bytes: Uint8Array, phase?: 0 | 1): Request;
  receive(from: number, bytes: Uint8Array, phase?: 0 | 1): Request;
}

/** What the ranks of one communicator send each other. */
export class MpiWire {
  readonly rank: number;
  readonly size: number;
  readonly #calls: MpiCalls;
  readonly #communicator: Handle;
  readonly #open = new Set<OpenRequest>();
  readonly #unused: HandleMemory[] = [];

  constructor(calls: MpiCalls, communicator: Handle) {
    this.#calls = calls;
    this.#communicator = communicator;
    this.rank = calls.rank(communicator);
    this.size = calls.size(communicator);
  }

  /** By the number of a collective, the wire of its data. */
  ofCall(sequence: number): CallWire {
    const first = MAX_TAG + (sequence % CALLS) * PHASES;
    return {
      rank: this.rank,
      size: this.size,
      send: (to, bytes, phase = 0) => this.send(to, bytes, first + phase),
      receive: (from, bytes, phase = 0) => this.receive(from, bytes, first + phase),
    };
  }

  send(to: number, bytes: Uint8Array, tag: number): Request {
    const request = this.#request('send', [bytes]);
    this.#calls.send(bytes, to, tag, this.#communicator, request.handle);
    return request;
  }

  receive(from: number, bytes: Uint8Array, tag: number): ReceiveRequest {
    const request = this.#request('receive', [bytes]);
    this.#calls.receive(bytes, from, tag, this.#communicator, request.handle);
    return request;
  }

  /** A collective: everyone's `input` one after the other. */
  allGather(input: Uint8Array, output: Uint8Array): Request {
    const request = this.#request('collective', [input, output]);
    this.#calls.allGather(input, output, this.#communicator, request.handle);
    return request;
  }

  split(color: number | undefined, key: number): Handle | undefined {
    return this.#calls.split(this.#communicator, color, key);
  }

  /** Whether there is nothing that MPI still works on; then it ends. */
  free(): boolean {
    if (this.#open.size > 0) return false;
    this.#calls.free(this.#communicator);
    return true;
  }

  /** Withdraws what can be withdrawn. What is left still has its memory, and is returned. */
  abandon(): readonly Request[] {
    const left: Request[] = [];
    for (const request of this.#open) {
      if (request.kind === 'receive') this.#calls.cancel(request.handle);
      left.push(request);
    }
    return left;
  }

  #request(kind: Kind, memory: readonly Uint8Array[]): OpenRequest {
    const handle = this.#unused.pop() ?? this.#calls.handleMemory();
    const request = new OpenRequest(this.#calls, handle, kind, memory, (done) => {
      this.#open.delete(done);
      this.#unused.push(done.handle);
    });
    this.#open.add(request);
    return request;
  }
}

type Kind = 'send' | 'receive' | 'collective';

export interface ReceiveRequest extends Request {
  /** That have come; known when it is done. */
  readonly receivedBytes: number;
}

class OpenRequest implements ReceiveRequest {
  readonly handle: HandleMemory;
  readonly kind: Kind;
  /** Not to be collected while MPI reads and writes it. */
  readonly memory: readonly Uint8Array[];
  receivedBytes = 0;
  readonly #calls: MpiCalls;
  readonly #release: (request: OpenRequest) => void;
  #isDone = false;

  constructor(
    calls: MpiCalls,
    handle: HandleMemory,
    kind: Kind,
    memory: readonly Uint8Array[],
    release: (request: OpenRequest) => void,
  ) {
    this.#calls = calls;
    this.handle = handle;
    this.kind = kind;
    this.memory = memory;
    this.#release = release;
  }

  isDone(): boolean {
    if (this.#isDone) return true;
    if (!this.#test()) return false;
    this.#isDone = true;
    this.#release(this);
    return true;
  }

  #test(): boolean {
    if (this.kind !== 'receive') return this.#calls.test(this.handle);
    const bytes = this.#calls.testReceive(this.handle);
    this.receivedBytes = bytes ?? 0;
    return bytes !== undefined;
  }
}
