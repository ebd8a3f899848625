import type { Limits } from './call-options.ts';
import { describeTransfer, type GroupCall, type Transfer } from './calls.ts';
import type { CallLabel } from './failure.ts';
import { describeCall } from './record.ts';

const DONE: Promise<void> = Promise.resolve();

/**
 * A call that was issued, and how it ends: with its result, with an error, or by signal. A call that is done as
 * soon as it is issued has one promise with all others of its kind.
 */
export class IssuedCall<Call extends GroupCall | Transfer, State> {
  readonly call: Call;
  /** Counts the calls of its queue. */
  readonly sequence: number;
  /** What the group's movement remembers of it. */
  readonly state: State;
  readonly timeoutMs: number;
  /** On the clock of performance.now(); of a call that somebody waits for. */
  deadline: number = Number.POSITIVE_INFINITY;
  /** Of a queue that times its calls. */
  timer: ReturnType<typeof setTimeout> | undefined;
  /** The neighbours in the queue, in the order of issue. */
  previous: IssuedCall<Call, State> | undefined;
  next: IssuedCall<Call, State> | undefined;
  readonly #rank: number;
  readonly #signal: AbortSignal | undefined;
  readonly #interrupt: (reason: unknown) => void;
  #outcome: 'open' | 'done' | Error = 'open';
  #waiting: Waiting | undefined;

  /** `interrupt` is called with the signal's reason, at once if it has been given already. */
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

  /** `allReduce(sum, f32 [10])` */
  get description(): string {
    const { call } = this;
    return 'record' in call ? describeCall(call.record) : describeTransfer(call);
  }

  /** To be asked for once, when the call has been issued: its time begins. */
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

/** Which call of which rank of the group. */
export interface IssuedPlace<Call> {
  readonly call: Call;
  readonly sequence: number;
  readonly rank: number;
}

export function labelOf({ call, sequence, rank }: IssuedPlace<GroupCall | Transfer>): CallLabel {
  const { operation } = 'record' in call ? call.record : call;
  return { operation, sequence, rank };
}

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  readonly detach: (() => void) | undefined;
}
