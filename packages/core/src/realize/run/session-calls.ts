import { nextTurn } from '../../base/next-turn.ts';

/** The milliseconds for which calls may follow each other in microtasks alone. */
const TURN_MS = 10;

/** Runs the calls of a session one after another, in the order in which they are made. Between them, timers and input get a turn. */
export class SessionCalls {
  #last: Promise<void> = Promise.resolve();
  /** Settles when the work has ended that has no place in the order. */
  #aside: Promise<void> = Promise.resolve();
  #underWay = 0;
  #turnBegan = performance.now();

  /** Whether calls or work aside are under way. */
  get isBusy(): boolean {
    return this.#underWay > 0;
  }

  /** Runs `body` after the earlier calls. It is an async function, so that errors of a run have the caller's line. */
  async run<T>(body: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    this.#underWay++;
    await before;
    try {
      return await body();
    } finally {
      this.#underWay--;
      if (performance.now() - this.#turnBegan > TURN_MS) {
        await nextTurn();
        this.#turnBegan = performance.now();
      }
      resolve();
    }
  }

  /** Runs `body` now, beside the order of the calls. */
  async runAside<T>(body: () => Promise<T>): Promise<T> {
    const work = body();
    this.#aside = endOf(this.#aside, work);
    this.#underWay++;
    try {
      return await work;
    } finally {
      this.#underWay--;
    }
  }

  /** Settles when nothing is under way. */
  async settle(): Promise<void> {
    while (this.isBusy) await Promise.all([this.#last, this.#aside]);
  }
}

/** Settles when all work has ended, and keeps no result of it. */
async function endOf(...work: readonly Promise<unknown>[]): Promise<void> {
  await Promise.allSettled(work);
}
