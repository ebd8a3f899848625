import type { RequestClient } from '@shardwise/core/extend';
import { refusal } from '../protocol/refusal.ts';
import type { SentDtype } from '../protocol/arrays.ts';
import type { PartRequest, PushRequest } from '../protocol/request.ts';

interface EarlyPart {
  readonly request: PartRequest;
  readonly arrays: readonly Uint8Array[];
  /** Call this when nobody reads the arrays any more. It answers the request. */
  readonly settle: () => void;
}

/** A push with all of its arrays, including those that parts brought before. */
export interface WholePush {
  readonly request: PushRequest;
  readonly arrays: readonly Uint8Array[];
}

/**
 * Gradients that workers have sent before their pushes. They have no effect before their push arrives, and copies of
 * the range do not have them. If they are lost here, the push brings them again.
 */
export class EarlyGradients {
  /** The parts of each worker. */
  readonly #parts = new Map<number, readonly EarlyPart[]>();

  /** Keeps a part. Settles when its push has been answered, or will never come. */
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
    // A part for the same parameters is from a failed attempt, and is replaced. So each worker has at most one gradient
    // of each parameter here.
    this.#settle(known.filter(isReplaced));
    this.#parts.set(worker, [...known.filter((each) => !isReplaced(each)), part]);
    client.closed.addEventListener('abort', () => this.#drop(worker, part), { once: true });
    await promise;
  }

  /** Returns a push together with its early gradients. Throws RefusedError if a part that it names is missing. */
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
    // Surplus arrays are passed on, so that they are refused as in any other push.
    return { request: { ...request, parts: [] }, arrays: [...whole, ...arrays.slice(next)] };
  }

  /** Drops the parts of a worker whose push has been answered, or that has left or joined again. */
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
  return refusal('no-part', {
    asked: `a push of worker ${worker} with part ${number} of ${dtype} gradients that it sent before`,
    found: 'this server does not have it',
    todo: 'Send the push whole',
  });
}
