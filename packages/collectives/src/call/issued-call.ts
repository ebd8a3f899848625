import type { Limits } from './call-options.ts';
import { describeTransfer, type GroupCall, labelOf, type Transfer } from './calls.ts';
import type { CallLabel } from './aborted-error.ts';
import { describeCall } from './record.ts';

const DONE: Promise<void> = Promise.resolve();

/** What the calls of a queue have in common. */
export interface CallIssuer {
  /** This rank's number in the group. */
  readonly rank: number;
  /** Called with a signal's reason when the signal of a call is given, or soon if it has been given already. */
  readonly interrupt: (reason: unknown) => void;
}

/**
 * A call that was issued, and how it ends: with its result, with an error, or by its signal. Calls that are
 * done as soon as they are issued share one promise.
 */
export class IssuedCall<Call extends GroupCall | Transfer, State> {
  readonly call: Call;
  /** The number of the call in its queue, from 0. */
  readonly sequence: number;
  /** What the group's movement remembers of the call. */
  readonly state: State;
  /** The timer of the call, if its queue times calls. */
  timer: ReturnType<typeof setTimeout> | undefined;
  /** The neighbours in the queue, in the order of issue. */
  previous: IssuedCall<Call, State> | undefined;
  next: IssuedCall<Call, State> | undefined;
  readonly #limits: Limits;
  readonly #issuer: CallIssuer;
  #outcome: 'open' | 'done' | Error = 'open';
  #waiting: Waiting | undefined;

  constructor(call: Call, sequence: number, limits: Limits, issuer: CallIssuer, state: State) {
    this.call = call;
    this.sequence = sequence;
    this.#limits = limits;
    this.#issuer = issuer;
    this.state = state;
  }

  get isOpen(): boolean {
    return this.#outcome === 'open';
  }

  get timeoutMs(): number {
    return this.#limits.timeoutMs;
  }

  /**
   * The time at which the call is too late, in milliseconds on the clock of performance.now(). It is infinite
   * until somebody waits for the call.
   */
  get deadline(): number {
    return this.#waiting?.deadline ?? Number.POSITIVE_INFINITY;
  }

  get label(): CallLabel {
    return labelOf({ call: this.call, sequence: this.sequence, rank: this.#issuer.rank });
  }

  /** The call with its arguments: `allReduce(sum, f32 [10])`. */
  get description(): string {
    const { call } = this;
    return 'record' in call ? describeCall(call.record) : describeTransfer(call);
  }

  /**
   * The result of the call. It is asked for once, when the call has been issued, and the time limit of the call begins
   * then.
   */
  get promise(): Promise<void> {
    if (this.#outcome === 'done') return DONE;
    if (this.#outcome !== 'open') return Promise.reject(this.#outcome);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const deadline = performance.now() + this.timeoutMs;
    const { signal } = this.#limits;
    const detach = signal === undefined ? undefined : attach(signal, this.#issuer);
    this.#waiting = { resolve, reject, deadline, detach };
    return promise;
  }

  resolve(): void {
    if (this.#outcome !== 'open') return;
    this.#outcome = 'done';
    this.#waiting?.detach?.();
    this.#waiting?.resolve();
  }

  reject(error: Error): void {
    if (this.#outcome !== 'open') return;
    this.#outcome = error;
    this.#waiting?.detach?.();
    this.#waiting?.reject(error);
  }
}

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  readonly deadline: number;
  readonly detach: (() => void) | undefined;
}

/** Makes the signal interrupt the calls of the issuer. Returns a function that stops this. */
function attach(signal: AbortSignal, issuer: CallIssuer): () => void {
  const onSignal = (): void => issuer.interrupt(signal.reason);
  signal.addEventListener('abort', onSignal, { once: true });
  if (signal.aborted) queueMicrotask(onSignal);
  return () => signal.removeEventListener('abort', onSignal);
}
