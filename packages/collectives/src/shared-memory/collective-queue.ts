import type { Limits } from '../call/call-options.ts';
import {
  abortedError,
  mismatchError,
  reasonText,
  timeoutError,
  type AbortCause,
  type CallSite,
} from '../call/failure.ts';
import type { GroupCall } from '../call/group-call.ts';
import { decodeRecord, findMismatch } from '../call/record-codec.ts';
import { describeCall, type CallRecord } from '../call/record.ts';
import type { Exposure, Lanes } from './lanes.ts';
import { doPart } from './parts.ts';
import { Settlement } from '../call/settlement.ts';
import type { SharedMemory } from './shared-memory.ts';

/**
 * A call passes: published → all have arrived → per round: own piece staged → own part done →
 * own piece taken back → all are done. Calls whose buffers all lie in the shared memory have one
 * round and nothing staged.
 */
interface PendingCall {
  readonly sequence: number;
  readonly call: GroupCall;
  readonly settlement: Settlement;
  readonly exposure: Exposure;
  /** The one that was issued after it. */
  next: PendingCall | undefined;
  phase: 'meeting' | 'filling' | 'working' | 'emptying';
  round: number;
  /** Known when all have arrived. */
  plan: Plan;
}

/**
 * Pieces that a call goes in (none where nothing is exposed, as in a barrier), whether any rank
 * stages them, the exposures by rank and the length of the longest.
 */
interface Plan {
  readonly rounds: number;
  readonly staged: boolean;
  readonly exposures: readonly Exposure[];
  readonly longestBytes: number;
}

const NOTHING: Plan = { rounds: 0, staged: false, exposures: [], longestBytes: 0 };
const UNKNOWN: Plan = { rounds: 1, staged: false, exposures: [], longestBytes: 0 };
const NO_EXPOSURE: Exposure = { address: 0, byteLength: 0, staged: false };

/** Tells the group that it has ended. */
export interface QueueOwner {
  end(cause: AbortCause): void;
  /** Ends the world. */
  abort(reason: unknown): void;
}

/**
 * One rank's collectives of one group, in the order of issue. A call is published before the
 * earlier ones are done, and its part is done as soon as all have arrived and this rank's earlier
 * parts are done, so that no rank waits for a slower one before it must.
 */
export class CollectiveQueue {
  readonly #lanes: Lanes;
  readonly #memory: SharedMemory;
  readonly #owner: QueueOwner;
  readonly #interrupt: (reason: unknown) => void;
  /** Calls that are not completed: the first and the last one of a list. */
  #oldest: PendingCall | undefined;
  #newest: PendingCall | undefined;
  /** The first call that is not published, and the first whose part is not done. */
  #toPublish: PendingCall | undefined;
  #toWork: PendingCall | undefined;
  #issued = 0;
  #completed = 0;

  constructor(lanes: Lanes, memory: SharedMemory, owner: QueueOwner) {
    this.#lanes = lanes;
    this.#memory = memory;
    this.#owner = owner;
    this.#interrupt = (reason) => owner.abort(reason);
  }

  /** `sequence` of the next call. */
  get next(): number {
    return this.#issued;
  }

  /** The call moves with the next `advance`. */
  issue(call: GroupCall, limits: Limits): Settlement {
    const settlement = new Settlement(limits, this.#interrupt);
    const pending: PendingCall = {
      sequence: this.#issued,
      call,
      settlement,
      exposure: this.#expose(call),
      next: undefined,
      phase: 'meeting',
      round: 0,
      plan: UNKNOWN,
    };
    if (this.#newest !== undefined) this.#newest.next = pending;
    this.#newest = pending;
    this.#oldest ??= pending;
    this.#toPublish ??= pending;
    this.#toWork ??= pending;
    this.#issued += 1;
    return settlement;
  }

  isPending(): boolean {
    return this.#oldest !== undefined;
  }

  deadline(): number {
    return Math.min(...this.#all().map((call) => call.settlement.deadline));
  }

  advance(): boolean {
    let moved = false;
    for (let call = this.#toPublish; call !== undefined; call = this.#toPublish) {
      if (!this.#lanes.slotIsFree(call.sequence)) break;
      this.#lanes.publish(call.sequence, call.call.record, call.exposure);
      this.#toPublish = call.next;
      moved = true;
    }
    for (let call = this.#toWork; call !== this.#toPublish; call = this.#toWork) {
      if (call === undefined) break;
      const { phase, round } = call;
      const partDone = this.#work(call);
      moved ||= partDone || call.phase !== phase || call.round !== round;
      if (!partDone) break;
      this.#toWork = call.next;
    }
    for (let call = this.#oldest; call !== this.#toWork; call = this.#oldest) {
      if (call === undefined || !this.#allReached(call, 2 * call.plan.rounds)) break;
      this.#takeBack(call);
      this.#completed += 1;
      this.#lanes.setCompleted(this.#completed);
      this.#oldest = call.next;
      if (call.next === undefined) this.#newest = undefined;
      call.settlement.resolve();
      moved = true;
    }
    return moved;
  }

  expire(now: number): void {
    const late = this.#all().find((call) => call.settlement.deadline <= now);
    if (late === undefined) return;
    const { sequence, settlement, call } = late;
    const ranks = [...this.#lanes.members.keys()];
    const missing = ranks.filter((rank) => !this.#lanes.arrived(rank, sequence));
    const slow = ranks.filter(
      (rank) => !missing.includes(rank) && rank !== this.#lanes.rank && !this.#isDone(late, rank),
    );
    const error = timeoutError(
      this.#site(call.record, sequence),
      describeCall(call.record),
      settlement.timeoutMs,
      { missing, slow },
    );
    settlement.reject(error);
    this.#owner.abort(error);
  }

  fail(cause: AbortCause): void {
    const calls = this.#all();
    this.#oldest = this.#newest = this.#toPublish = this.#toWork = undefined;
    for (const { call, sequence, settlement } of calls) {
      settlement.reject(abortedError(this.#site(call.record, sequence), cause));
    }
  }

  #records(sequence: number): readonly CallRecord[] {
    return this.#lanes
      .records(sequence)
      .flatMap((fields) => decodeRecord(fields, this.#lanes.size) ?? []);
  }

  /** Whether this rank's last part is done. */
  #work(call: PendingCall): boolean {
    if (call.phase === 'meeting') {
      if (!this.#allArrived(call) || !this.#agree(call)) return false;
      call.plan = this.#plan(call.sequence);
      if (call.call.onMet !== undefined) call.call.onMet(this.#records(call.sequence));
      call.call.onStarted?.();
      call.phase = 'filling';
    }
    const { rounds, staged } = call.plan;
    if (rounds === 0) return true;
    for (;;) {
      if (call.phase === 'filling') {
        // The staging area is still that of the call before.
        if (call.exposure.staged && this.#completed < call.sequence) return false;
        this.#fill(call);
        if (staged) this.#lanes.setStep(call.sequence, 2 * call.round + 1);
        call.phase = 'working';
      }
      if (call.phase === 'working') {
        if (staged && !this.#allReached(call, 2 * call.round + 1)) return false;
        this.#doPart(call);
        this.#lanes.setStep(call.sequence, 2 * call.round + 2);
        if (call.round + 1 === rounds) return true;
        call.phase = 'emptying';
      }
      if (!this.#allReached(call, 2 * call.round + 2)) return false;
      this.#takeBack(call);
      call.round += 1;
      call.phase = 'filling';
    }
  }

  #expose(call: GroupCall): Exposure {
    const { input, record } = call;
    if (input.byteLength === 0) return NO_EXPOSURE;
    const address = this.#memory.addressOf(input, record.dtype);
    if (address !== undefined) return { address, byteLength: input.byteLength, staged: false };
    const { control, channel, members, rank } = this.#lanes;
    return {
      address: control.layout.staging(channel, members[rank] ?? 0, 'collective'),
      byteLength: input.byteLength,
      staged: true,
    };
  }

  #plan(sequence: number): Plan {
    if (this.#lanes.nothingExposed(sequence)) return NOTHING;
    const exposures: Exposure[] = [];
    let staged = false;
    let longestBytes = 0;
    for (let rank = 0; rank < this.#lanes.size; rank++) {
      const exposure = this.#lanes.exposure(rank, sequence);
      exposures.push(exposure);
      staged ||= exposure.staged;
      longestBytes = Math.max(longestBytes, exposure.byteLength);
    }
    const rounds = staged ? Math.ceil(longestBytes / this.#pieceBytes()) : 1;
    return { rounds, staged, exposures, longestBytes };
  }

  #doPart({ call, plan, round, sequence }: PendingCall): void {
    const { staged, exposures, longestBytes } = plan;
    const start = staged ? round * this.#pieceBytes() : 0;
    const stop = staged ? Math.min(start + this.#pieceBytes(), longestBytes) : longestBytes;
    doPart(call, {
      memory: this.#memory,
      rank: this.#lanes.rank,
      start,
      stop,
      addresses: exposures.map((one) => (one.staged ? one.address : one.address + start)),
      records: this.#lanes.records(sequence),
    });
  }

  #fill({ call, exposure, round }: PendingCall): void {
    if (exposure.staged) this.#memory.copyIn(this.#piece(call.input, round), exposure.address);
  }

  /** What peers have written to the staged piece of a call in place. */
  #takeBack({ call, exposure, round }: PendingCall): void {
    if (!exposure.staged || call.input.byteLength === 0 || call.input !== call.output) return;
    this.#memory.copyOut(exposure.address, this.#piece(call.output, round));
  }

  #piece(bytes: Uint8Array, round: number): Uint8Array {
    return bytes.subarray(round * this.#pieceBytes(), (round + 1) * this.#pieceBytes());
  }

  #pieceBytes(): number {
    return this.#lanes.control.layout.stagingBytes;
  }

  #allArrived({ sequence, call }: PendingCall): boolean {
    const lanes = this.#lanes;
    for (let rank = 0; rank < lanes.size; rank++) {
      if (lanes.arrived(rank, sequence)) continue;
      // In this order: a rank closes after its last step.
      if (lanes.closed(rank) && !lanes.arrived(rank, sequence)) this.#endAt(rank, call, sequence);
      return false;
    }
    return true;
  }

  #allReached({ sequence, call }: PendingCall, step: number): boolean {
    const lanes = this.#lanes;
    for (let rank = 0; rank < lanes.size; rank++) {
      if (lanes.step(rank, sequence) >= step) continue;
      if (lanes.closed(rank) && lanes.step(rank, sequence) < step) {
        this.#endAt(rank, call, sequence);
      }
      return false;
    }
    return true;
  }

  #endAt(rank: number, { record }: GroupCall, sequence: number): void {
    const reason = `it closed the group before ${describeCall(record)} #${sequence} was done`;
    this.#owner.end({ rank: this.#lanes.members[rank], reason });
  }

  #isDone({ sequence, plan }: PendingCall, rank: number): boolean {
    return this.#lanes.step(rank, sequence) >= 2 * plan.rounds;
  }

  #agree(pending: PendingCall): boolean {
    const { sequence, call, settlement } = pending;
    const records = this.#lanes.records(sequence);
    const pair = findMismatch(records);
    if (pair === undefined) return true;
    const error = mismatchError(this.#site(call.record, sequence), records, pair);
    settlement.reject(error);
    this.#owner.end({ rank: this.#lanes.members[this.#lanes.rank], reason: reasonText(error) });
    return false;
  }

  /** Oldest first. */
  #all(): readonly PendingCall[] {
    const calls: PendingCall[] = [];
    for (let call = this.#oldest; call !== undefined; call = call.next) calls.push(call);
    return calls;
  }

  #site(record: CallRecord, sequence: number): CallSite {
    return { operation: record.operation, sequence, rank: this.#lanes.rank };
  }
}
