import type { Limits } from './call-options.ts';

const DONE: Promise<void> = Promise.resolve();

/**
 * How an issued call ends: with its result, or by time or signal. A call that is done as soon as it
 * is issued has one promise with all others of its kind.
 */
export class Settlement {
  readonly timeoutMs: number;
  /** On the clock of performance.now(); of a call that somebody waits for. */
  deadline: number = Number.POSITIVE_INFINITY;
  readonly #signal: AbortSignal | undefined;
  readonly #interrupt: (reason: unknown) => void;
  #outcome: 'open' | 'done' | Error = 'open';
  #waiting: Waiting | undefined;

  /** `interrupt` is called with the signal's reason, at once if it has been given already. */
  constructor(limits: Limits, interrupt: (reason: unknown) => void) {
    this.timeoutMs = limits.timeoutMs;
    this.#signal = limits.signal;
    this.#interrupt = interrupt;
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

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  readonly detach: (() => void) | undefined;
}
