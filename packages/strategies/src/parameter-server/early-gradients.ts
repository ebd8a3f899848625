import type { RequestClient } from '@shardwise/core/extend';
import { refusal } from './refusal.ts';
import type { SentDtype } from './sent-gradients.ts';
import type { PartRequest, PushRequest } from './server-request.ts';

interface EarlyPart {
  readonly request: PartRequest;
  readonly arrays: readonly Uint8Array[];
  /** Has the request answered: nobody reads its arrays any more. */
  readonly settle: () => void;
}

/** A push and all of its arrays. */
export interface WholePush {
  readonly request: PushRequest;
  readonly arrays: readonly Uint8Array[];
}

/**
 * What workers have sent of pushes that are to come. Nothing of it counts before its push does, and no copy of the range knows of it:
 * what is lost here, the push brings again.
 */
export class EarlyGradients {
  /** By worker. */
  readonly #parts = new Map<number, readonly EarlyPart[]>();

  /** Settles when the push has been answered, or will never come. */
  async keep(
    request: PartRequest,
    arrays: readonly Uint8Array[],
    client: RequestClient,
  ): Promise<void> {
    const { worker } = request;
    const { promise, resolve } = Promise.withResolvers<void>();
    const part = { request, arrays, settle: resolve };
    const isReplaced = ({ request: earlier }: EarlyPart): boolean =>
      earlier.parameters.some((place) => request.parameters.includes(place));
    const known = this.#parts.get(worker) ?? [];
    // An attempt that failed: a worker never has more here than one gradient of each parameter.
    this.#settle(known.filter(isReplaced));
    this.#parts.set(worker, [...known.filter((each) => !isReplaced(each)), part]);
    client.closed.addEventListener('abort', () => this.#drop(worker, part), { once: true });
    await promise;
  }

  /** The push with what came before it. Throws RefusedError where a part of it is not there. */
  completed(request: PushRequest, arrays: readonly Uint8Array[]): WholePush {
    const { worker, session, parts, present, dtype } = request;
    if (parts.length === 0) return { request, arrays };
    const known = this.#parts.get(worker) ?? [];
    const early = new Map<number, Uint8Array>();
    for (const number of parts) {
      const part = known.find(
        (each) => each.request.number === number && each.request.session === session,
      );
      if (part === undefined || part.request.dtype !== dtype) throw noPart(worker, number, dtype);
      part.request.parameters.forEach((place, index) => {
        const { [index]: array } = part.arrays;
        if (array !== undefined) early.set(place, array);
      });
    }
    let next = 0;
    const whole = present.flatMap((isPresent, place) => {
      if (!isPresent) return [];
      return early.get(place) ?? arrays[next++] ?? [];
    });
    // Arrays that nobody asked for are refused as those of any push.
    return { request: { ...request, parts: [] }, arrays: [...whole, ...arrays.slice(next)] };
  }

  /** The worker's push is over, or the worker is. */
  drop(worker: number): void {
    this.#settle(this.#parts.get(worker) ?? []);
    this.#parts.delete(worker);
  }

  close(): void {
    for (const worker of this.#parts.keys()) this.drop(worker);
  }

  #drop(worker: number, part: EarlyPart): void {
    this.#settle([part]);
    const known = this.#parts.get(worker);
    if (known !== undefined)
      this.#parts.set(
        worker,
        known.filter((each) => each !== part),
      );
  }

  #settle(parts: readonly EarlyPart[]): void {
    for (const { settle } of parts) settle();
  }
}

function noPart(worker: number, number: number, dtype: SentDtype): Error {
  return refusal(
    'no-part',
    `a push of worker ${worker} with part ${number} of ${dtype} gradients that it sent before`,
    'this server does not have it',
    'Send the push whole',
  );
}
