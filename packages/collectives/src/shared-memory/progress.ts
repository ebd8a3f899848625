import type { AbortCause } from '@shardwise/core/spec';
import { onNextTurn } from '@shardwise/core/base';
import type { Presence } from './alarm.ts';
import type { Control } from './control.ts';

/** The calls of one group that wait for other ranks. */
export interface Waiting {
  /** Does what has become possible. Returns whether there was anything. */
  advance(): boolean;
  isPending(): boolean;
  /**
   * The earliest time at which `expire` has something to do, in milliseconds on the clock of performance.now().
   */
  deadline(): number;
  expire(now: number): void;
  fail(cause: AbortCause): void;
}

/** This many turns take less than a microsecond. */
const BRIEF_TURNS = 48;
const SPIN_MS = 0.005;
const SPIN_TURNS_PER_CLOCK = 16;
const NAP_MS = 0.2;
const POLL_MS = 0.1;
const POLLS = 100;
const POLLS_OVERSUBSCRIBED = 4;
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Moves the pending calls of one rank, whose thread is often busy computing. When a call is issued, the thread
 * spins for less than a microsecond. Then a microtask spins for a few microseconds. Then the event loop polls
 * for a tenth of a millisecond. Then the rank sleeps until a peer rings. If ranks outnumber cores, a spinning
 * rank would hold up the one that it waits for, so it gives its core away instead.
 */
export class Progress {
  readonly #control: Control;
  readonly #presence: Presence;
  readonly #bell: number;
  readonly #oversubscribed: boolean;
  #groups: readonly Waiting[] = [];
  readonly #onSpin = (): void => this.#spin();
  readonly #onPoll = (): void => this.#poll();
  #state: 'idle' | 'spinning' | 'polling' | 'sleeping' = 'idle';
  #polls = 0;
  #pollingSince = 0;
  /** How often the rank has slept. It shows whether a wake-up was meant for an earlier sleep. */
  #sleep = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When to check next whether the others are alive, on the clock of performance.now(). */
  #nextLook: number;

  constructor(control: Control, worldRank: number, presence: Presence) {
    this.#control = control;
    this.#presence = presence;
    this.#nextLook = performance.now() + presence.lookEveryMs;
    this.#bell = control.map.bell(worldRank) / 4;
    this.#oversubscribed = control.map.size > navigator.hardwareConcurrency;
  }

  add(group: Waiting): void {
    this.#groups = [...this.#groups, group];
  }

  remove(group: Waiting): void {
    this.#groups = this.#groups.filter((other) => other !== group);
    if (this.#groups.length === 0) this.#presence.leave();
  }

  /** Is called when calls were issued, or when calls may have become possible. */
  poke(): void {
    this.#advance();
    if (!this.#isPending()) return;
    if (this.#state === 'idle') {
      if (!this.#oversubscribed && this.#spinBriefly()) return;
      this.#state = 'spinning';
      queueMicrotask(this.#onSpin);
    } else if (this.#state === 'sleeping') {
      this.#wake(this.#sleep);
    } else {
      this.#startPolling();
    }
  }

  /** Advances the calls once, without waiting. */
  advance(): void {
    this.#advance();
  }

  /**
   * Spins for less than a microsecond. Ranks that run in step are not farther apart than that. Returns whether nothing
   * is pending any more.
   */
  #spinBriefly(): boolean {
    for (let turn = 0; turn < BRIEF_TURNS; turn++) {
      this.#advance();
      if (!this.#isPending()) return true;
    }
    return false;
  }

  #spin(): void {
    this.#advance();
    if (this.#oversubscribed) this.#nap();
    else this.#spinForAWhile();
    if (!this.#isPending()) {
      this.#state = 'idle';
      return;
    }
    this.#state = 'polling';
    this.#startPolling();
    onNextTurn(this.#onPoll);
  }

  #spinForAWhile(): void {
    let end = Number.POSITIVE_INFINITY;
    for (let turn = 1; this.#isPending(); turn++) {
      this.#advance();
      if (turn % SPIN_TURNS_PER_CLOCK !== 0) continue;
      const now = performance.now();
      if (now > end) return;
      end = Math.min(end, now + SPIN_MS);
    }
  }

  /** Blocks the thread, because a blocked thread wakes sooner than its event loop does. */
  #nap(): void {
    const { words } = this.#control;
    const end = performance.now() + NAP_MS;
    for (let leftMs = NAP_MS; leftMs > 0 && this.#isPending(); leftMs = end - performance.now()) {
      Atomics.store(words, this.#bell, 1);
      // A peer that came before it could see the bell has not rung, so this rank looks once more.
      if (!this.#advance()) this.#presence.nap(leftMs);
      Atomics.store(words, this.#bell, 0);
      this.#advance();
    }
  }

  #startPolling(): void {
    this.#polls = this.#oversubscribed ? POLLS_OVERSUBSCRIBED : POLLS;
    this.#pollingSince = performance.now();
  }

  #poll(): void {
    if (this.#advance()) this.#startPolling();
    if (!this.#isPending()) {
      this.#state = 'idle';
      return;
    }
    this.#polls -= 1;
    if (this.#polls > 0 && performance.now() - this.#pollingSince < POLL_MS) {
      onNextTurn(this.#onPoll);
    } else {
      this.#fallAsleep();
    }
  }

  #fallAsleep(): void {
    const { words } = this.#control;
    Atomics.store(words, this.#bell, 1);
    // A peer that came before it could see the bell has not rung, and what advances now may make more possible.
    while (this.#isPending() && this.#advance());
    this.#expire();
    if (!this.#isPending()) {
      Atomics.store(words, this.#bell, 0);
      this.#state = 'idle';
      return;
    }
    this.#state = 'sleeping';
    this.#sleep += 1;
    const sleep = this.#sleep;
    // The timer also keeps the thread or process alive.
    const delay = Math.min(this.#deadline(), this.#nextLook) - performance.now();
    this.#timer = setTimeout(
      () => this.#wake(sleep),
      Math.min(Math.max(Math.ceil(delay), 0), MAX_TIMER_MS),
    );
    this.#presence.listen(() => this.#wake(sleep));
  }

  #wake(sleep: number): void {
    if (this.#state !== 'sleeping' || sleep !== this.#sleep) return;
    clearTimeout(this.#timer);
    Atomics.store(this.#control.words, this.#bell, 0);
    this.#presence.stopListening();
    this.#state = 'polling';
    this.#startPolling();
    // What has come meanwhile may complete all calls.
    this.#advance();
    this.#expire();
    this.#poll();
  }

  #advance(): boolean {
    const cause = this.#control.abortCause();
    if (cause !== undefined) {
      for (const group of this.#groups) group.fail(cause);
      return true;
    }
    let moved = false;
    for (const group of this.#groups) moved = group.advance() || moved;
    return moved;
  }

  #isPending(): boolean {
    for (const group of this.#groups) if (group.isPending()) return true;
    return false;
  }

  #expire(): void {
    // Where all calls are complete, a rank that has ended is not missed.
    if (!this.#isPending()) return;
    const now = performance.now();
    if (now >= this.#nextLook) this.#look(now);
    for (const group of this.#groups) group.expire(now);
  }

  #look(now: number): void {
    this.#nextLook = now + this.#presence.lookEveryMs;
    const failure = this.#presence.findFailure();
    if (failure === undefined) return;
    this.#control.abort(failure);
    // A rank that dies while it aborts the world leaves no cause.
    const cause = this.#control.abortCause() ?? failure;
    for (const group of this.#groups) group.fail(cause);
  }

  #deadline(): number {
    let earliest = Number.POSITIVE_INFINITY;
    for (const group of this.#groups) earliest = Math.min(earliest, group.deadline());
    return earliest;
  }
}
