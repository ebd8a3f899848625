import { availableParallelism } from 'node:os';

/** The calls of one group that wait. */
export interface Waiting {
  /** Lets MPI work and does what has become possible; whether that was anything. */
  advance(): boolean;
  isPending(): boolean;
  /** Whether data moves: MPI moves it only while it is called. */
  isMoving(): boolean;
  expire(now: number): void;
}

const SPIN_MS = 0.2;
const BURST_MS = 0.5;
const TURNS_PER_CLOCK = 16;
const TURNS_PER_NOTICE = 64;
const NOTICES_EVERY_MS = 20;
const EXPIRE_EVERY_MS = 5;
const LOOK_EVERY_MS = 100;
/** With nothing done for so long, the rank naps between its looks, and then sleeps. */
const NAP_AFTER_MS = 2;
const NAP_AFTER_MOVING_MS = 100;
const SLEEP_AFTER_MS = 200;
const NAP_MS = 0.05;
const SLEEP_MS = 1;

export interface PumpOptions {
  /** Ranks on this host. Where they outnumber the cores, one that waits gives its core away. */
  readonly localRanks: number;
  readonly yieldCore: () => void;
  /** Looks what other ranks have told; whether that was anything. */
  readonly readNotices: () => boolean;
  /** Looks whether other ranks live. */
  readonly look: () => void;
}

/**
 * Moves the pending calls of one process. MPI works only while it is called, and wakes nobody: calls
 * advance when one is issued; then a microtask asks again and again for a fifth of a millisecond;
 * then each turn of the event loop does for half a millisecond; with pauses, once nothing comes.
 */
export class Pump {
  readonly #options: PumpOptions;
  readonly #oversubscribed: boolean;
  readonly #groups = new Set<Waiting>();
  readonly #onSpin = (): void => this.#spin();
  readonly #onTurn = (): void => this.#turn();
  readonly #pause = new Int32Array(new SharedArrayBuffer(4));
  #notices: NodeJS.Timeout | undefined;
  #isRunning = false;
  #turns = 0;
  #movedAt = 0;
  #nextExpire = 0;
  #nextLook = 0;

  constructor(options: PumpOptions) {
    this.#options = options;
    this.#oversubscribed = options.localRanks > availableParallelism();
  }

  add(group: Waiting): void {
    this.#groups.add(group);
    // A rank without calls learns as well that the others have failed; it does not stay for that.
    this.#notices ??= setInterval(() => this.#options.readNotices(), NOTICES_EVERY_MS).unref();
  }

  remove(group: Waiting): void {
    this.#groups.delete(group);
    if (this.#groups.size > 0) return;
    clearInterval(this.#notices);
    this.#notices = undefined;
  }

  /** To be called when calls were issued. */
  poke(): void {
    this.#advance();
    if (this.#isRunning || !this.#isPending()) return;
    this.#isRunning = true;
    this.#movedAt = performance.now();
    queueMicrotask(this.#onSpin);
  }

  #spin(): void {
    this.#burst(SPIN_MS);
    this.#goOn();
  }

  #turn(): void {
    const now = performance.now();
    if (now >= this.#nextExpire) {
      this.#nextExpire = now + EXPIRE_EVERY_MS;
      for (const group of this.#groups) group.expire(now);
      if (this.#options.readNotices()) this.#movedAt = now;
      if (now >= this.#nextLook && now - this.#movedAt > LOOK_EVERY_MS) {
        this.#nextLook = now + LOOK_EVERY_MS;
        this.#options.look();
      }
    }
    this.#burst(BURST_MS);
    this.#goOn();
  }

  #goOn(): void {
    if (!this.#isPending()) {
      this.#isRunning = false;
      return;
    }
    const idleMs = performance.now() - this.#movedAt;
    if (idleMs > SLEEP_AFTER_MS) {
      setTimeout(this.#onTurn, SLEEP_MS);
      return;
    }
    if (idleMs > (this.#isMoving() ? NAP_AFTER_MOVING_MS : NAP_AFTER_MS)) {
      Atomics.wait(this.#pause, 0, 0, NAP_MS);
    }
    setImmediate(this.#onTurn);
  }

  #burst(limitMs: number): void {
    const start = performance.now();
    for (let turn = 1; this.#isPending(); turn++) {
      if (this.#advance()) this.#movedAt = performance.now();
      else if (this.#oversubscribed) this.#options.yieldCore();
      if (turn % TURNS_PER_CLOCK !== 0 && !this.#oversubscribed) continue;
      if (performance.now() - start > limitMs) return;
    }
  }

  #advance(): boolean {
    this.#turns += 1;
    let moved = this.#turns % TURNS_PER_NOTICE === 0 && this.#options.readNotices();
    for (const group of this.#groups) moved = group.advance() || moved;
    return moved;
  }

  #isPending(): boolean {
    for (const group of this.#groups) if (group.isPending()) return true;
    return false;
  }

  #isMoving(): boolean {
    for (const group of this.#groups) if (group.isMoving()) return true;
    return false;
  }
}
