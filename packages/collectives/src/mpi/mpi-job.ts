import { reasonText, type AbortCause } from '@shardwise/core/spec';
import { MpiCalls } from './mpi-calls.ts';
import { loadMpiLibrary } from './mpi-library.ts';
import { Neighbours } from './neighbours.ts';
import { NoticeBoard, type Left, type Notice } from './notice-board.ts';
import { Requests } from './mpi-requests.ts';

/** All groups that come from one call of mpiGroup. */
export interface MpiWorld {
  readonly id: number;
  hear(from: number, left: Left): void;
  /**
   * Rejects requests that wait in vain for ranks that have left. `now` is in milliseconds on the clock of
   * performance.now().
   */
  look(now: number): void;
  /** Ends all groups of the world on this rank. It does not tell the other ranks. */
  fail(cause: AbortCause): void;
  /** Closes all groups that are open. */
  leaveAll(): void;
}

/** Milliseconds for which a failing process stays, so that others can learn why. */
const FAREWELL_MS = 1000;
const PAUSE_MS = 1;

/**
 * The MPI job, which all worlds of this process share. A job that has failed can only end, because MPI neither takes
 * back what it has begun nor goes on with fewer ranks.
 */
export class MpiJob {
  readonly calls: MpiCalls;
  readonly requests: Requests;
  readonly rank: number;
  readonly size: number;
  readonly #notices: NoticeBoard;
  readonly #neighbours: Neighbours;
  readonly #worlds = new Map<number, MpiWorld>();
  readonly #exiting = new Set<number>();
  readonly #pauses = new Int32Array(new SharedArrayBuffer(4));
  #hasFailed = false;
  #uncaught: Error | undefined;
  #nextWorld = 0;
  #lastSplit: Promise<unknown> = Promise.resolve();

  constructor() {
    const library = loadMpiLibrary();
    this.calls = new MpiCalls(library);
    const isOurs = this.calls.initialize();
    const { world } = this.calls.abi;
    this.rank = this.calls.rank(world);
    this.size = this.calls.size(world);
    this.#notices = new NoticeBoard(this.calls, this.calls.duplicate(world));
    const host = this.calls.splitHost(world);
    this.#neighbours = new Neighbours(this.calls, host, this.rank);
    this.calls.free(host);
    this.requests = new Requests(this.calls, {
      localRanks: this.#neighbours.count,
      yieldCore: library.yieldCore,
      readNotices: () => this.#readNotices(),
      look: (now) => this.#look(now),
    });
    if (!isOurs) return;
    process.on('uncaughtExceptionMonitor', (error) => {
      this.#uncaught = error;
    });
    process.once('exit', (exitCode) => this.#exit(exitCode));
  }

  /** Makes a world with a new number, which is the same on all ranks. */
  open<Made extends MpiWorld>(make: (id: number) => Made): Made {
    const world = make(this.#nextWorld++);
    this.#worlds.set(world.id, world);
    this.requests.listen();
    return world;
  }

  close(world: MpiWorld): void {
    this.#worlds.delete(world.id);
    if (this.#worlds.size === 0) this.requests.stopListening();
  }

  /** Sends a notice to all other ranks. */
  tell(notice: Notice): void {
    this.#notices.tell(notice);
  }

  /** Notes that MPI works on something that it does not give back, so that the job can only end. */
  spoil(): void {
    this.#hasFailed = true;
  }

  /** Ends a world because of a failure, and tells the other ranks. */
  abort(world: MpiWorld, cause: AbortCause): void {
    this.#hasFailed = true;
    this.tell({ kind: 'abort', world: world.id, ...cause });
    world.fail(cause);
  }

  /**
   * Calls `make` when this rank is `ready` and everything that was asked for before has been made. Ranks that
   * make groups in different orders would wait for each other.
   */
  async inTurn<Ready, Made>(ready: Promise<Ready>, make: (ready: Ready) => Made): Promise<Made> {
    const made = Promise.all([ready, this.#lastSplit]).then(([value]) => make(value));
    this.#lastSplit = made.catch(() => {});
    return made;
  }

  #readNotices(): boolean {
    const read = this.#notices.read();
    for (const { from, notice } of read) this.#receive(from, notice);
    return read.length > 0;
  }

  #receive(from: number, notice: Notice): void {
    switch (notice.kind) {
      case 'abort':
        this.#hasFailed = true;
        this.#worlds.get(notice.world)?.fail({ rank: notice.rank, reason: notice.reason });
        return;
      case 'left':
        this.#worlds.get(notice.world)?.hear(from, notice);
        return;
      case 'exiting':
        this.#exiting.add(from);
        return;
      default:
        notice satisfies never;
    }
  }

  #exit(exitCode: number): void {
    if (exitCode === 0 && !this.#hasFailed) {
      for (const world of this.#worlds.values()) world.leaveAll();
      this.#awaitOthers();
    }
    if (exitCode === 0 && !this.#hasFailed) {
      this.calls.finalize();
      return;
    }
    const how = this.#uncaught === undefined ? '' : `, ${reasonText(this.#uncaught)}`;
    this.#failAll({ rank: this.rank, reason: `its process ended with code ${exitCode}${how}` });
    this.tell({ kind: 'exiting' });
    const end = performance.now() + FAREWELL_MS;
    while (this.#exiting.size < this.size - 1 && performance.now() < end) this.#pause();
    this.calls.abort(exitCode === 0 ? 1 : exitCode);
  }

  #look(now: number): void {
    for (const world of this.#worlds.values()) world.look(now);
    const dead = this.#neighbours.findDead();
    if (dead === undefined) return;
    const reason = `its process ${dead.pid} ended without closing the group`;
    this.#failAll({ rank: dead.rank, reason });
  }

  #failAll(cause: AbortCause): void {
    for (const world of this.#worlds.values()) this.abort(world, cause);
  }

  /** Waits until all processes end, or one fails. All notices have come by then. */
  #awaitOthers(): void {
    while (!this.#notices.haveMet() && !this.#hasFailed) this.#pause();
    this.#readNotices();
  }

  #pause(): void {
    if (!this.#readNotices()) Atomics.wait(this.#pauses, 0, 0, PAUSE_MS);
  }
}

const started: { job?: MpiJob } = {};

/** The job of this process. MPI begins once in a process, and ends with it. */
export function mpiJob(): MpiJob {
  started.job ??= new MpiJob();
  return started.job;
}
