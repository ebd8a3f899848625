import type { Limits } from '../call/call-options.ts';
import { abortedError, mismatchError, timeoutError, type AbortCause } from '../call/failure.ts';
import type { GroupCall } from '../call/group-call.ts';
import { decodeRecord, encodeRecord, findMismatch, recordFields } from '../call/record-codec.ts';
import { describeCall } from '../call/record.ts';
import { Settlement } from '../call/settlement.ts';
import type { MpiWire, Request } from './mpi-wire.ts';
import { stepsOf } from './operations.ts';
import type { RankOrderReducer } from './rank-order-reducer.ts';
import type { Steps } from './steps.ts';

/** Calls whose records are on their way before the data of the first has moved. */
const RECORDS_AHEAD = 16;
const ANNOUNCE_AFTER_MS = 1000;
const ANNOUNCE_AGAIN_MS = 100;

export interface QueueOwner {
  /** Tells the others how many calls this rank has issued. */
  announce(issued: number): void;
  /** This rank has failed, and the world with it. */
  abort(reason: unknown): void;
  /** All ranks of the group fail alike. */
  disagree(error: Error): void;
}

interface Pending {
  readonly call: GroupCall;
  readonly sequence: number;
  readonly settlement: Settlement;
  readonly issuedAt: number;
  meeting: Meeting | undefined;
  steps: Steps | undefined;
}

/** Everyone tells everyone which call it makes. */
interface Meeting extends Records {
  readonly told: Request;
  hasEnded: boolean;
}

/** Memory for the records of one call, used again by later ones. */
interface Records {
  /** By rank, its encoded record. */
  readonly records: readonly Float64Array[];
  readonly own: Float64Array;
  readonly input: Uint8Array;
  readonly output: Uint8Array;
}

/**
 * The collectives of one rank: they run in the order of issue, each once all ranks are known to
 * have made the same call.
 */
export class CollectiveQueue {
  readonly #wire: MpiWire;
  readonly #reducer: RankOrderReducer;
  readonly #owner: QueueOwner;
  readonly #pending: Pending[] = [];
  readonly #unused: Records[] = [];
  /** By rank, collectives that it is known to have issued. */
  readonly #issuedBy: number[];
  /** By rank that has left, the collectives it has finished. */
  readonly #finishedBy = new Map<number, number>();
  #issued = 0;
  #announced = 0;
  #announcedAt = 0;

  constructor(wire: MpiWire, reducer: RankOrderReducer, owner: QueueOwner) {
    this.#wire = wire;
    this.#reducer = reducer;
    this.#owner = owner;
    this.#issuedBy = Array.from({ length: wire.size }, () => 0);
  }

  /** Number of the next call. */
  get next(): number {
    return this.#issued;
  }

  get finished(): number {
    return this.#issued - this.#pending.length;
  }

  issue(call: GroupCall, limits: Limits): Settlement {
    const settlement = new Settlement(limits, (reason) => this.#owner.abort(reason));
    const sequence = this.#issued++;
    const issuedAt = performance.now();
    this.#pending.push({
      call,
      sequence,
      settlement,
      issuedAt,
      meeting: undefined,
      steps: undefined,
    });
    return settlement;
  }

  isPending(): boolean {
    return this.#pending.length > 0;
  }

  isMoving(): boolean {
    return this.#pending[0]?.steps !== undefined;
  }

  advance(): boolean {
    let moved = this.#meet();
    for (;;) {
      const first = this.#pending[0];
      if (first?.meeting?.hasEnded !== true) return moved;
      if (first.steps === undefined) {
        first.call.onStarted?.();
        first.steps = stepsOf(this.#wire.ofCall(first.sequence), first.call, this.#reducer);
        moved = true;
      }
      if (first.steps.next().done !== true) return moved;
      this.#pending.shift();
      first.settlement.resolve();
      moved = true;
    }
  }

  /** `rank` has issued so many calls, and waits. */
  arrived(rank: number, issued: number): void {
    this.#issuedBy[rank] = Math.max(this.#issuedBy[rank] ?? 0, issued);
    if (this.#isWaiting() && this.#issued > this.#announced) this.#announce(performance.now());
  }

  /** `rank` takes part in no more than `finished` calls. */
  left(rank: number, finished: number): void {
    this.#finishedBy.set(rank, finished);
  }

  /** The rank without which the first call can't end, as it has left. */
  absent(): number | undefined {
    const first = this.#pending[0];
    if (first === undefined) return undefined;
    for (const [rank, finished] of this.#finishedBy) if (first.sequence >= finished) return rank;
    return undefined;
  }

  expire(now: number): void {
    const expired = this.#pending.find(({ settlement }) => now >= settlement.deadline);
    if (expired !== undefined) {
      const { sequence, settlement, call } = expired;
      const missing = this.#issuedBy.flatMap((issued, rank) =>
        rank !== this.#wire.rank && issued <= sequence ? [rank] : [],
      );
      const hasMet = expired.meeting?.hasEnded === true;
      const error = timeoutError(
        this.#site(expired),
        describeCall(call.record),
        settlement.timeoutMs,
        { missing: hasMet ? [] : missing, slow: [] },
      );
      settlement.reject(error);
      this.#owner.abort(error);
      return;
    }
    const first = this.#pending[0];
    if (first === undefined || !this.#isWaiting() || this.#issued === this.#announced) return;
    const announceMs = Math.min(first.settlement.timeoutMs / 4, ANNOUNCE_AFTER_MS);
    if (now - first.issuedAt < announceMs || now - this.#announcedAt < ANNOUNCE_AGAIN_MS) return;
    this.#announce(now);
  }

  fail(cause: AbortCause): void {
    for (const pending of this.#pending.splice(0)) {
      pending.settlement.reject(abortedError(this.#site(pending), cause));
    }
  }

  /** Has the first calls meet that have not; whether one has met. */
  #meet(): boolean {
    let moved = false;
    const ahead = Math.min(this.#pending.length, RECORDS_AHEAD);
    for (let index = 0; index < ahead; index++) {
      const pending = this.#pending[index];
      if (pending === undefined) return moved;
      const meeting = (pending.meeting ??= this.#tell(pending.call));
      // They end in this order.
      const canEnd = index === 0 || this.#pending[index - 1]?.meeting?.hasEnded === true;
      if (meeting.hasEnded || !canEnd || !meeting.told.isDone()) continue;
      moved = true;
      const pair = findMismatch(meeting.records);
      if (pair !== undefined) {
        const error = mismatchError(this.#site(pending), meeting.records, pair);
        pending.settlement.reject(error);
        this.#owner.disagree(error);
        return moved;
      }
      meeting.hasEnded = true;
      pending.call.onMet?.(
        meeting.records.flatMap((fields) => decodeRecord(fields, this.#wire.size) ?? []),
      );
      this.#unused.push(meeting);
    }
    return moved;
  }

  #tell({ record }: GroupCall): Meeting {
    const memory = this.#unused.pop() ?? recordsOf(this.#wire.size);
    encodeRecord(record, this.#wire.size, memory.own);
    const told = this.#wire.allGather(memory.input, memory.output);
    return { ...memory, told, hasEnded: false };
  }

  #isWaiting(): boolean {
    const first = this.#pending[0];
    return first !== undefined && first.meeting?.hasEnded !== true;
  }

  #announce(now: number): void {
    this.#announced = this.#issued;
    this.#announcedAt = now;
    this.#owner.announce(this.#issued);
  }

  #site({ call, sequence }: Pending) {
    return { operation: call.record.operation, sequence, rank: this.#wire.rank };
  }
}

function recordsOf(size: number): Records {
  const fields = recordFields(size);
  const all = new Float64Array(new ArrayBuffer(8 * fields * (size + 1)));
  const bytes = new Uint8Array(all.buffer);
  return {
    records: Array.from({ length: size }, (_, rank) =>
      all.subarray(rank * fields, (rank + 1) * fields),
    ),
    own: all.subarray(size * fields),
    input: bytes.subarray(8 * fields * size),
    output: bytes.subarray(0, 8 * fields * size),
  };
}
