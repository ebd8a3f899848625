import type { Limits } from './checked-group.ts';

/** The promise of an issued call, and its end by time or signal. */
export class Settlement<T = void> {
  readonly promise: Promise<T>;
  readonly timeoutMs: number;
  /** On the clock of performance.now(). */
  readonly deadline: number;
  readonly #resolve: (value: T) => void;
  readonly #reject: (error: Error) => void;
  readonly #signal: AbortSignal | undefined;
  readonly #onSignal: (() => void) | undefined;

  /** `onSignal` is called with the signal's reason, at once if it has been given already. */
  constructor(limits: Limits, onSignal: (reason: unknown) => void) {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const { signal } = limits;
    this.promise = promise;
    this.timeoutMs = limits.timeoutMs;
    this.deadline = performance.now() + limits.timeoutMs;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#signal = signal;
    if (signal === undefined) return;
    this.#onSignal = () => onSignal(signal.reason);
    signal.addEventListener('abort', this.#onSignal, { once: true });
    if (signal.aborted) queueMicrotask(this.#onSignal);
  }

  resolve(value: T): void {
    this.#detach();
    this.#resolve(value);
  }

  reject(error: Error): void {
    this.#detach();
    this.#reject(error);
  }

  #detach(): void {
    if (this.#onSignal !== undefined) this.#signal?.removeEventListener('abort', this.#onSignal);
  }
}
