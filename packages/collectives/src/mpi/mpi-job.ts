import { reasonText, type AbortCause } from '../call/failure.ts';
import { MpiCalls } from './mpi-calls.ts';
import { loadMpiLibrary } from './mpi-library.ts';
import type { Request } from './mpi-wire.ts';
import { Neighbours } from './neighbours.ts';
import { NoticeBoard } from './notice-board.ts';
import type { GroupNotice, Notice } from './notice.ts';
import { Pump } from './pump.ts';

/** All groups of one call of mpiGroup. */
export interface World {
  readonly id: number;
  receive(from: number, notice: GroupNotice): void;
  /** Ends it, without telling others. */
  fail(cause: AbortCause): void;
  /** Closes what is open. */
  leave(): void;
}

/** How long a process that fails stays for others to learn why. */
const FAREWELL_MS = 1000;
const PAUSE_MS = 1;

/**
 * What the job's ranks have in common in this process. A failed job can only end: MPI neither takes
 * back what it has begun nor goes on with fewer ranks.
 */
export class MpiJob {
  readonly calls: MpiCalls;
  readonly pump: Pump;
  readonly rank: number;
  readonly size: number;
  readonly #notices: NoticeBoard;
  readonly #neighbours: Neighbours;
  readonly #worlds = new Map<number, World>();
  readonly #exiting = new Set<number>();
  /** What MPI could not be made to give back. */
  #abandoned: Request[] = [];
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
    this.pump = new Pump({
      localRanks: this.#neighbours.count,
      yieldCore: library.yieldCore,
      readNotices: () => this.#readNotices(),
      look: () => this.#look(),
    });
    if (!isOurs) return;
    process.on('uncaughtExceptionMonitor', (error) => {
      this.#uncaught = error;
    });
    process.once('exit', (exitCode) => this.#exit(exitCode));
  }

  /** The number of a new world, the same on all ranks. */
  open<Made extends World>(make: (id: number) => Made): Made {
    const world = make(this.#nextWorld++);
    this.#worlds.set(world.id, world);
    return world;
  }

  close(world: World): void {
    this.#worlds.delete(world.id);
  }

  tell(notice: Notice, ranks: Iterable<number>): void {
    this.#notices.tell(notice, ranks);
  }

  /** Keeps the memory of what MPI still works on. */
  abandon(requests: readonly Request[]): void {
    this.#abandoned.push(...requests);
    this.#hasFailed = true;
  }

  /** A failure of a world, of which `informed` ranks learn by themselves. */
  abort(world: World, cause: AbortCause, informed: readonly number[] = []): void {
    const { rank, reason } = cause;
    this.#hasFailed = true;
    this.#notices.tell(
      { kind: 'abort', world: world.id, rank, reason },
      this.#othersThan(informed),
    );
    world.fail(cause);
  }

  /**
   * Calls `make` when all are `ready` and what was asked before is made: ranks that make groups in
   * different orders would wait for each other.
   */
  async inTurn<Ready, Made>(ready: Promise<Ready>, make: (ready: Ready) => Made): Promise<Made> {
    const made = Promise.all([ready, this.#lastSplit]).then(([value]) => make(value));
    this.#lastSplit = made.catch(() => {});
    return made;
  }

  #othersThan(ranks: readonly number[]): readonly number[] {
    return Array.from({ length: this.size }, (_, rank) => rank).filter(
      (rank) => !ranks.includes(rank),
    );
  }

  #readNotices(): boolean {
    if (this.#abandoned.length > 0) {
      this.#abandoned = this.#abandoned.filter((request) => !isOver(request));
    }
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
      case 'waiting':
        this.#worlds.get(notice.world)?.receive(from, notice);
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
      for (const world of this.#worlds.values()) world.leave();
      this.#awaitOthers();
    }
    if (exitCode === 0 && !this.#hasFailed) {
      this.calls.finalize();
      return;
    }
    const how = this.#uncaught === undefined ? '' : `, ${reasonText(this.#uncaught)}`;
    this.#failAll({ rank: this.rank, reason: `its process ended with code ${exitCode}${how}` });
    this.tell({ kind: 'exiting' }, this.#othersThan([]));
    const end = performance.now() + FAREWELL_MS;
    while (this.#exiting.size < this.size - 1 && performance.now() < end) this.#pause();
    this.calls.abort(exitCode === 0 ? 1 : exitCode);
  }

  #look(): void {
    const dead = this.#neighbours.findDead();
    if (dead === undefined) return;
    const reason = `its process ${dead.pid} ended without closing the group`;
    this.#failAll({ rank: dead.rank, reason });
  }

  #failAll(cause: AbortCause): void {
    for (const world of this.#worlds.values()) this.abort(world, cause);
  }

  /** Until all end, or one fails; by then all notices have come. */
  #awaitOthers(): void {
    const meeting = this.#notices.meet();
    while (!meeting.isDone() && !this.#hasFailed) this.#pause();
    this.#readNotices();
  }

  #pause(): void {
    if (!this.#readNotices()) Atomics.wait(this.#pauses, 0, 0, PAUSE_MS);
  }
}

/** A request that failed is as good as done. */
function isOver(request: Request): boolean {
  try {
    return request.isDone();
  } catch {
    return true;
  }
}

const started: { job?: MpiJob } = {};

/** MPI begins once in a process, and ends with it. */
export function mpiJob(): MpiJob {
  started.job ??= new MpiJob();
  return started.job;
}
