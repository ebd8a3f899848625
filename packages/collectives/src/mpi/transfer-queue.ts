import { dtypes } from '@shardwise/core/spec';
import type { Limits } from '../call/call-options.ts';
import type { Transfer } from '../call/checked-group.ts';
import { abortedError, callsDifferError, timeoutError, type AbortCause } from '../call/failure.ts';
import { Settlement } from '../call/settlement.ts';
import { MpiError } from './mpi-calls.ts';
import { MAX_MESSAGE_BYTES, type MpiWire, type ReceiveRequest, type Request } from './mpi-wire.ts';
import { piecesOf } from './steps.ts';

/** What a rank sent before it left may come a little later than the word that it has left. */
const GRACE_MS = 50;

interface Pending {
  readonly transfer: Transfer;
  readonly sequence: number;
  readonly settlement: Settlement;
  readonly issuedAt: number;
  readonly pieces: readonly { readonly byteLength: number; readonly request: Moving }[];
}

type Moving = Request | ReceiveRequest;

/** The messages that one rank sends and receives, which wait neither for each other nor for calls. */
export class TransferQueue {
  readonly #wire: MpiWire;
  readonly #abort: (reason: unknown) => void;
  #pending: Pending[] = [];
  /** By rank that has left, when this was heard. */
  readonly #leftAt = new Map<number, number>();
  #issued = 0;

  constructor(wire: MpiWire, abort: (reason: unknown) => void) {
    this.#wire = wire;
    this.#abort = abort;
  }

  get next(): number {
    return this.#issued;
  }

  issue(transfer: Transfer, limits: Limits): Settlement {
    const settlement = new Settlement(limits, this.#abort);
    const { operation, buffer, peer, tag } = transfer;
    const all = piecesOf(buffer.bytes, MAX_MESSAGE_BYTES);
    const pieces = (all.length === 0 ? [buffer.bytes] : all).map((bytes) => ({
      byteLength: bytes.byteLength,
      request:
        operation === 'send'
          ? this.#wire.send(peer, bytes, tag)
          : this.#wire.receive(peer, bytes, tag),
    }));
    const issuedAt = performance.now();
    this.#pending.push({ transfer, sequence: this.#issued++, settlement, issuedAt, pieces });
    return settlement;
  }

  isPending(): boolean {
    return this.#pending.length > 0;
  }

  advance(): boolean {
    const before = this.#pending.length;
    if (before > 0) this.#pending = this.#pending.filter((pending) => !this.#hasEnded(pending));
    return this.#pending.length < before;
  }

  left(rank: number): void {
    this.#leftAt.set(rank, performance.now());
  }

  /** The rank that a message waits for, though it has left. */
  absent(now: number): number | undefined {
    return this.#pending.find(({ transfer: { peer }, issuedAt }) => {
      const leftAt = this.#leftAt.get(peer);
      return leftAt !== undefined && now > Math.max(leftAt, issuedAt) + GRACE_MS;
    })?.transfer.peer;
  }

  expire(now: number): void {
    const expired = this.#pending.find(({ settlement }) => now >= settlement.deadline);
    if (expired === undefined) return;
    const { transfer, settlement } = expired;
    const error = timeoutError(this.#site(expired), describe(transfer), settlement.timeoutMs, {
      missing: [transfer.peer],
      slow: [],
    });
    settlement.reject(error);
    this.#abort(error);
  }

  fail(cause: AbortCause): void {
    for (const pending of this.#pending.splice(0)) {
      pending.settlement.reject(abortedError(this.#site(pending), cause));
    }
  }

  #hasEnded(pending: Pending): boolean {
    try {
      if (!pending.pieces.every(({ request }) => request.isDone())) return false;
    } catch (error) {
      if (!(error instanceof MpiError && error.isTruncated)) throw error;
      this.#differ(pending, 'more');
      return true;
    }
    const other = pending.pieces.find(
      ({ request, byteLength }) =>
        'receivedBytes' in request && request.receivedBytes !== byteLength,
    );
    if (other === undefined || pending.transfer.operation === 'send') pending.settlement.resolve();
    else this.#differ(pending, 'less');
    return true;
  }

  #differ(pending: Pending, much: 'more' | 'less'): void {
    const { peer, tag } = pending.transfer;
    const { rank } = this.#wire;
    const error = callsDifferError(this.#site(pending), [
      { ranks: [peer], call: `send(to ${rank}, tag ${tag}, ${much})` },
      { ranks: [rank], call: describe(pending.transfer) },
    ]);
    pending.settlement.reject(error);
    this.#abort(error);
  }

  #site({ transfer, sequence }: Pending) {
    return { operation: transfer.operation, sequence, rank: this.#wire.rank };
  }
}

function describe({ operation, buffer, peer, tag }: Transfer): string {
  const elements = buffer.bytes.byteLength / dtypes[buffer.dtype].bytes;
  const direction = operation === 'send' ? 'to' : 'from';
  return `${operation}(${direction} ${peer}, tag ${tag}, ${buffer.dtype} [${elements}])`;
}
