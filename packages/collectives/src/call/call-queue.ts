import type { AbortCause } from '@shardwise/core/spec';
import type { Limits } from './call-options.ts';
import { type GroupCall, labelOf, type Transfer } from './calls.ts';
import { abortedError } from './aborted-error.ts';
import { type LateRanks, timeoutError } from './failure.ts';
import { type CallIssuer, IssuedCall } from './issued-call.ts';

const MAX_TIMER_MS = 2 ** 31 - 1;

/** How the bytes of a group's calls move. Groups over shared memory and groups over messages differ in this. */
export interface Movement<Call extends GroupCall | Transfer, State> {
  /** Makes what the movement remembers of a call, of which nothing moves yet. */
  begin(call: Call, sequence: number): State;
  /**
   * Moves whatever can move after a call was issued. The movement ends calls with `settle` and `reject` of the queue.
   */
  move(issued: IssuedCall<Call, State>): void;
  /**
   * Whether bytes of the call are moving. If so, its caller may not have the buffers back before its messages have
   * ended.
   */
  isMoving(issued: IssuedCall<Call, State>): boolean;
  /** The ranks that a call has waited for in vain. */
  late(issued: IssuedCall<Call, State>): LateRanks;
  /** Ends the group on all ranks, because this rank has failed. */
  abort(reason: unknown): void;
}

/**
 * The collectives, or the messages, of one rank in one group. The queue numbers them and keeps those that have
 * not ended, oldest first. A call ends with its result, by its time limit or signal, or together with the
 * group.
 */
export class CallQueue<Call extends GroupCall | Transfer, State> {
  readonly #movement: Movement<Call, State>;
  readonly #issuer: CallIssuer;
  #oldest: IssuedCall<Call, State> | undefined;
  #newest: IssuedCall<Call, State> | undefined;
  #issued = 0;
  #ended: AbortCause | undefined;
  readonly #isTimed: boolean;

  /**
   * `rank` is this rank's number in the group. With `isTimed` the queue sets a timer for each call. Without it, the
   * owner of the queue calls `expire`.
   */
  constructor(rank: number, movement: Movement<Call, State>, { isTimed }: { isTimed: boolean }) {
    this.#movement = movement;
    this.#issuer = { rank, interrupt: (reason) => movement.abort(reason) };
    this.#isTimed = isTimed;
  }

  get oldest(): IssuedCall<Call, State> | undefined {
    return this.#oldest;
  }

  /** Why the group has ended. Undefined if it has not. */
  get ended(): AbortCause | undefined {
    return this.#ended;
  }

  /** Begins a call and returns its result. The promise rejects at once if the group has ended. */
  issue(call: Call, limits: Limits): Promise<void> {
    const sequence = this.#issued++;
    if (this.#ended !== undefined) {
      const { rank } = this.#issuer;
      return Promise.reject(abortedError(labelOf({ call, sequence, rank }), this.#ended));
    }
    const state = this.#movement.begin(call, sequence);
    const issued = new IssuedCall(call, sequence, limits, this.#issuer, state);
    issued.previous = this.#newest;
    if (this.#newest === undefined) this.#oldest = issued;
    else this.#newest.next = issued;
    this.#newest = issued;
    this.#movement.move(issued);
    const { promise } = issued;
    if (this.#isTimed && issued.isOpen) {
      const timeoutMs = Math.min(issued.timeoutMs, MAX_TIMER_MS);
      issued.timer = setTimeout(() => this.#expire(issued), timeoutMs);
    }
    return promise;
  }

  settle(issued: IssuedCall<Call, State>): void {
    this.#remove(issued);
    issued.resolve();
  }

  reject(issued: IssuedCall<Call, State>, error: Error): void {
    this.#remove(issued);
    issued.reject(error);
  }

  /**
   * The earliest time at which `expire` has something to do, in milliseconds on the clock of performance.now().
   */
  deadline(): number {
    let first = Number.POSITIVE_INFINITY;
    for (let issued = this.#oldest; issued !== undefined; issued = issued.next) {
      first = Math.min(first, issued.deadline);
    }
    return first;
  }

  /** Fails a call that is past its deadline, and with it the group. `now` is on the clock of performance.now(). */
  expire(now: number): void {
    for (let issued = this.#oldest; issued !== undefined; issued = issued.next) {
      if (issued.deadline > now) continue;
      this.#expire(issued);
      return;
    }
  }

  /** Rejects calls that are pending and do not move bytes, and all later calls. The first cause stays. */
  end(cause: AbortCause): void {
    this.#ended ??= cause;
    let next: IssuedCall<Call, State> | undefined;
    for (let issued = this.#oldest; issued !== undefined; issued = next) {
      next = issued.next;
      if (this.#movement.isMoving(issued)) continue;
      this.reject(issued, abortedError(issued.label, this.#ended));
    }
  }

  #expire(issued: IssuedCall<Call, State>): void {
    const ranks = this.#movement.late(issued);
    const error = timeoutError(issued.label, issued.description, issued.timeoutMs, ranks);
    this.reject(issued, error);
    this.#movement.abort(error);
  }

  #remove(issued: IssuedCall<Call, State>): void {
    if (!issued.isOpen) return;
    const { previous, next } = issued;
    issued.previous = issued.next = undefined;
    if (previous === undefined) this.#oldest = next;
    else previous.next = next;
    if (next === undefined) this.#newest = previous;
    else next.previous = previous;
    if (this.#isTimed) clearTimeout(issued.timer);
  }
}
