import type { Limits } from './call-options.ts';
import {
  describeTransfer,
  type GroupCall,
  type IssuedPlace,
  labelOf,
  type Transfer,
} from './calls.ts';
import type { CallLabel } from './aborted-error.ts';
import { describeCall } from './record.ts';

const DONE: Promise<void> = Promise.resolve();

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
  readonly timeoutMs: number;
  /**
   * The time at which the call is too late, in milliseconds on the clock of performance.now(). It is infinite
   * until somebody waits for the call.
   */
  deadline: number = Number.POSITIVE_INFINITY;
  /** The timer of the call, if its queue times calls. */
  timer: ReturnType<typeof setTimeout> | undefined;
  /** The neighbours in the queue, in the order of issue. */
  previous: IssuedCall<Call, State> | undefined;
  next: IssuedCall<Call, State> | undefined;
  readonly #rank: number;
  readonly #signal: AbortSignal | undefined;
  readonly #interrupt: (reason: unknown) => void;
  #outcome: 'open' | 'done' | Error = 'open';
  #waiting: Waiting | undefined;

  /**
   * `interrupt` is called with the signal's reason when the signal is given, or soon if it has been given
   * already.
   */
  constructor(
    { call, sequence, rank }: IssuedPlace<Call>,
    limits: Limits,
    interrupt: (reason: unknown) => void,
    state: State,
  ) {
    this.call = call;
    this.sequence = sequence;
    this.#rank = rank;
    this.timeoutMs = limits.timeoutMs;
    this.#signal = limits.signal;
    this.#interrupt = interrupt;
    this.state = state;
  }

  get isOpen(): boolean {
    return this.#outcome === 'open';
  }

  get label(): CallLabel {
    return labelOf({ call: this.call, sequence: this.sequence, rank: this.#rank });
  }

  /** The call with its arguments: `allReduce(sum, f32 [10])`. */
  get description(): string {
    const { call } = this;
    return 'record' in call ? describeCall(call.record) : describeTransfer(call);
  }

  /**
   * The result of the call. It is asked for once, when the call has been issued, and the call's time begins
   * then.
   */
  get promise(): Promise<void> {
    if (this.#outcome === 'done') return DONE;
    if (this.#outcome !== 'open') return Promise.reject(this.#outcome);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.deadline = performance.now() + this.timeoutMs;
    this.#waiting = { resolve, reject, detach: this.#attach() };
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

  #attach(): (() => void) | undefined {
    const signal = this.#signal;
    if (signal === undefined) return undefined;
    const onSignal = (): void => this.#interrupt(signal.reason);
    signal.addEventListener('abort', onSignal, { once: true });
    if (signal.aborted) queueMicrotask(onSignal);
    return () => signal.removeEventListener('abort', onSignal);
  }
}

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  readonly detach: (() => void) | undefined;
}
