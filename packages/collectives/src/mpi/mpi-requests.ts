import { availableParallelism } from 'node:os';
import { MpiError, type HandleMemory, type MpiCalls } from './mpi-calls.ts';

const SPIN_MS = 0.2;
const BURST_MS = 0.5;
const POLLS_PER_CLOCK = 8;
const POLLS_PER_NOTICE = 64;
const TESTS_PER_POLL = 16;
const NOTICES_EVERY_MS = 20;
const LOOK_EVERY_MS = 100;
/** Milliseconds without a finished request after which the rank naps between its polls. Later it sleeps. */
const NAP_AFTER_MS = 2;
const NAP_AFTER_MOVING_MS = 100;
const SLEEP_AFTER_MS = 200;
const NAP_MS = 0.05;
const SLEEP_MS = 1;
/** MPI moves the bytes of longer messages only while it is called. */
const SHORT_BYTES = 16 * 1024;

export interface RequestsOptions {
  /**
   * The number of ranks on this host. If they outnumber the cores, a rank that waits gives its core to others.
   */
  readonly localRanks: number;
  readonly yieldCore: () => void;
  /** Reads the notices of other ranks. Returns whether there were any. */
  readonly readNotices: () => boolean;
  /**
   * Checks whether other ranks are alive, and for whom requests wait. `now` is on the clock of
   * performance.now().
   */
  readonly look: (now: number) => void;
}

/** A request for MPI. */
export type NewRequest = RequestParts &
  (
    | { readonly kind: 'send' | 'collective' }
    | {
        readonly kind: 'receive';
        /**
         * Makes the error with which a receive rejects when another number of bytes comes. `receivedBytes` is undefined
         * if it is only known that there were too many.
         */
        readonly mismatch: (receivedBytes: number | undefined) => Error;
      }
  );

export type RequestKind = NewRequest['kind'];

interface RequestParts {
  /** Requests with the same owner are withdrawn together. */
  readonly owner: object;
  /** The rank of the world that the request waits for. Undefined if it waits for all ranks. */
  readonly peer: number | undefined;
  /** The memory that MPI reads and writes. It must not be collected before MPI is done. A receive has one. */
  readonly memory: readonly Uint8Array[];
  /** Hands the request to MPI, which writes its handle to this memory. */
  readonly start: (handle: HandleMemory) => void;
}

/** A request that MPI works on, until it is done or withdrawn. */
type OpenRequest = NewRequest & {
  readonly handle: HandleMemory;
  readonly issuedAt: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
};

/** The parts of a request that `withdraw` shows to its caller. */
type Waiting = Pick<OpenRequest, 'peer' | 'issuedAt'>;

const DONE: Promise<void> = Promise.resolve();

/**
 * The requests on which MPI works for this process. MPI works only while it is called, and wakes nobody. So a
 * request is tested when it is made. Then microtasks test all requests for a fifth of a millisecond, and after
 * that each turn of the event loop tests them for half a millisecond. If nothing comes, pauses are put in
 * between.
 */
export class Requests {
  readonly #calls: MpiCalls;
  readonly #options: RequestsOptions;
  readonly #oversubscribed: boolean;
  readonly #open: OpenRequest[] = [];
  readonly #unused: HandleMemory[] = [];
  /** Requests that were withdrawn and that MPI has not given back yet. */
  readonly #withdrawn: OpenRequest[] = [];
  readonly #onSpin = (): void => this.#spin();
  readonly #onTurn = (): void => this.#turn();
  readonly #pause = new Int32Array(new SharedArrayBuffer(4));
  #notices: NodeJS.Timeout | undefined;
  #isRunning = false;
  #next = 0;
  #polls = 0;
  #movedAt = 0;
  #burstEnd = 0;
  #nextNotices = 0;
  #nextLook = 0;

  constructor(calls: MpiCalls, options: RequestsOptions) {
    this.#calls = calls;
    this.#options = options;
    this.#oversubscribed = options.localRanks > availableParallelism();
  }

  /**
   * Reads notices from time to time, so that a rank without calls also learns that others have failed. This does not
   * keep its process alive.
   */
  listen(): void {
    this.#notices ??= setInterval(() => this.#readNotices(), NOTICES_EVERY_MS).unref();
  }

  stopListening(): void {
    clearInterval(this.#notices);
    this.#notices = undefined;
  }

  /** Starts a request. The promise settles when the request is done. */
  start(what: NewRequest): Promise<void> {
    const handle = this.#unused.pop() ?? this.#calls.handleMemory();
    try {
      what.start(handle);
      if (this.#isDone(what, handle)) {
        this.#unused.push(handle);
        return DONE;
      }
    } catch (error) {
      return Promise.reject(error);
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const issuedAt = performance.now();
    this.#open.push({ ...what, handle, issuedAt, resolve, reject });
    this.#run(issuedAt);
    return promise;
  }

  /**
   * Rejects the requests of `owner` for which `isMeant` returns true. `found` says whether there were any. MPI
   * goes on with those in `left`, and keeps their memory.
   */
  withdraw(
    owner: object,
    isMeant: (request: Waiting) => boolean,
    error: Error,
  ): { readonly found: boolean; readonly left: readonly RequestKind[] } {
    const meant = this.#open.filter((request) => request.owner === owner && isMeant(request));
    for (const request of meant) {
      this.#open.splice(this.#open.indexOf(request), 1);
      if (request.kind === 'receive') this.#calls.cancel(request.handle);
      request.reject(error);
    }
    const left = meant.filter((request) => !this.#isOver(request));
    this.#withdrawn.push(...left);
    return { found: meant.length > 0, left: left.map(({ kind }) => kind) };
  }

  #run(now: number): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#movedAt = now;
    this.#burstEnd = now + SPIN_MS;
    queueMicrotask(this.#onSpin);
  }

  /** Polls once in each microtask, so that code which awaits a request goes on at once. */
  #spin(): void {
    const hasMoved = this.#poll();
    if (this.#open.length === 0) {
      this.#isRunning = false;
      return;
    }
    if (!hasMoved && this.#oversubscribed) this.#options.yieldCore();
    else if (this.#polls % POLLS_PER_CLOCK !== 0) {
      queueMicrotask(this.#onSpin);
      return;
    }
    const now = performance.now();
    if (hasMoved) this.#movedAt = now;
    if (now < this.#burstEnd) queueMicrotask(this.#onSpin);
    else this.#rest(now);
  }

  #rest(now: number): void {
    const idleMs = now - this.#movedAt;
    if (idleMs > SLEEP_AFTER_MS) {
      setTimeout(this.#onTurn, SLEEP_MS);
      return;
    }
    if (idleMs > (this.#isMovingMuch() ? NAP_AFTER_MOVING_MS : NAP_AFTER_MS)) {
      Atomics.wait(this.#pause, 0, 0, NAP_MS);
    }
    setImmediate(this.#onTurn);
  }

  #turn(): void {
    const now = performance.now();
    this.#burstEnd = now + BURST_MS;
    if (now >= this.#nextNotices) {
      this.#nextNotices = now + NOTICES_EVERY_MS / 4;
      if (this.#readNotices()) this.#movedAt = now;
      if (now >= this.#nextLook) {
        this.#nextLook = now + LOOK_EVERY_MS;
        this.#options.look(now);
      }
    }
    this.#spin();
  }

  /** Tests some of the requests. Returns whether one of them was done. */
  #poll(): boolean {
    this.#polls += 1;
    if (this.#polls % POLLS_PER_NOTICE === 0) this.#readNotices();
    const tests = Math.min(this.#open.length, TESTS_PER_POLL);
    let hasMoved = false;
    for (let test = 0; test < tests; test++) {
      const index = this.#next < this.#open.length ? this.#next : 0;
      const request = this.#open[index];
      if (request === undefined) return hasMoved;
      const isDone = this.#advance(request);
      hasMoved ||= isDone;
      if (!isDone) {
        this.#next = index + 1;
        continue;
      }
      // The order of the open requests does not matter.
      const last = this.#open.pop();
      if (last !== undefined && last !== request) this.#open[index] = last;
      this.#next = index;
    }
    if (hasMoved) this.#movedAt = performance.now();
    return hasMoved;
  }

  #advance(request: OpenRequest): boolean {
    try {
      if (!this.#isDone(request, request.handle)) return false;
      this.#unused.push(request.handle);
      request.resolve();
    } catch (error) {
      request.reject(error);
    }
    return true;
  }

  #isDone(request: NewRequest, handle: HandleMemory): boolean {
    if (request.kind !== 'receive') return this.#calls.test(handle);
    try {
      const receivedBytes = this.#calls.testReceive(handle);
      if (receivedBytes === undefined) return false;
      if (receivedBytes === request.memory[0]?.byteLength) return true;
      throw request.mismatch(receivedBytes);
    } catch (error) {
      throw error instanceof MpiError && error.isTruncated ? request.mismatch(undefined) : error;
    }
  }

  /** Whether MPI has finished with a request. A request that failed is finished, too. */
  #isOver(request: OpenRequest): boolean {
    try {
      return this.#isDone(request, request.handle);
    } catch {
      return true;
    }
  }

  #readNotices(): boolean {
    for (const request of this.#withdrawn.splice(0)) {
      if (!this.#isOver(request)) this.#withdrawn.push(request);
    }
    return this.#options.readNotices();
  }

  #isMovingMuch(): boolean {
    return this.#open.some(({ memory }) =>
      memory.some(({ byteLength }) => byteLength > SHORT_BYTES),
    );
  }
}
