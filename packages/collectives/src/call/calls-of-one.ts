import type { AbortCause } from '@shardwise/core/spec';
import { abortedError } from './aborted-error.ts';
import { type GroupCall, labelOf, type Transfer } from './calls.ts';

/**
 * The calls of one kind, in a group of one rank. A call is carried out as it is issued, because there is nobody to wait
 * for.
 */
export class CallsOfOne<Call extends GroupCall | Transfer> {
  readonly #run: (call: Call) => Promise<void>;
  #issued = 0;
  #ended: AbortCause | undefined;

  constructor(run: (call: Call) => Promise<void>) {
    this.#run = run;
  }

  issue(call: Call): Promise<void> {
    const place = { call, sequence: this.#issued, rank: 0 };
    this.#issued += 1;
    if (this.#ended !== undefined) return Promise.reject(abortedError(labelOf(place), this.#ended));
    return this.#run(call);
  }

  /** Rejects all later calls. The first cause stays. */
  end(cause: AbortCause): void {
    this.#ended ??= cause;
  }
}
