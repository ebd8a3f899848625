import type { Limits } from '../call/checked-group.ts';
import {
  abortedError,
  mismatchError,
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
  phase: 'meeting' | 'filling' | 'working' | 'emptying';
  round: number;
  /** Known when all have arrived. */
  plan: Plan;
}

/**
 * Pieces that a call goes in (none where nothing is exposed, as in a barrier), and whether any rank
 * stages them.
 */
interface Plan {
  readonly rounds: number;
  readonly staged: boolean;
  readonly exposures: readonly Exposure[];
}

const NOTHING: Plan = { rounds: 0, staged: false, exposures: [] };
const UNKNOWN: Plan = { rounds: 1, staged: false, exposures: [] };
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
  /** Calls that are not completed, oldest first. */
  readonly #calls: PendingCall[] = [];
  #issued = 0;
  #published = 0;
  #worked = 0;
  #completed = 0;

  constructor(lanes: Lanes, memory: SharedMemory, owner: QueueOwner) {
    this.#lanes = lanes;
    this.#memory = memory;
    this.#owner = owner;
  }

  /** `sequence` of the next call. */
  get next(): number {
    return this.#issued;
  }

  issue(call: GroupCall, limits: Limits): Promise<void> {
    const settlement = new Settlement(limits, (reason) => this.#owner.abort(reason));
    this.#calls.push({
      sequence: this.#issued,
      call,
      settlement,
      exposure: this.#expose(call),
      phase: 'meeting',
      round: 0,
      plan: UNKNOWN,
    });
    this.#issued += 1;
    return settlement.promise;
  }

  isPending(): boolean {
    return this.#calls.length > 0;
  }

  deadline(): number {
    return Math.min(...this.#calls.map((call) => call.settlement.deadline));
  }

  advance(): boolean {
    let moved = false;
    while (this.#published < this.#issued && this.#lanes.slotIsFree(this.#published)) {
      const call = this.#at(this.#published);
      if (call === undefined) break;
      this.#lanes.publish(call.sequence, call.call.record, call.exposure);
      this.#published += 1;
      moved = true;
    }
    while (this.#worked < this.#published) {
      const call = this.#at(this.#worked);
      if (call === undefined) break;
      const { phase, round } = call;
      const partDone = this.#work(call);
      moved ||= partDone || call.phase !== phase || call.round !== round;
      if (!partDone) break;
      this.#worked += 1;
    }
    while (this.#completed < this.#worked) {
      const call = this.#at(this.#completed);
      if (call === undefined || !this.#allReached(call, 2 * call.plan.rounds)) break;
      this.#takeBack(call);
      this.#completed += 1;
      this.#lanes.setCompleted(this.#completed);
      this.#calls.shift();
      call.settlement.resolve();
      moved = true;
    }
    return moved;
  }

  expire(now: number): void {
    const late = this.#calls.find((call) => call.settlement.deadline <= now);
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
    this.#calls.splice(this.#calls.indexOf(late), 1);
    this.#owner.abort(error);
  }

  fail(cause: AbortCause): void {
    for (const { call, sequence, settlement } of this.#calls.splice(0)) {
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
      call.call.onMet?.(this.#records(call.sequence));
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
    const exposures = this.#lanes.members.map((_, rank) => this.#lanes.exposure(rank, sequence));
    const staged = exposures.some((exposure) => exposure.staged);
    const longest = Math.max(...exposures.map((exposure) => exposure.byteLength));
    const pieces = Math.ceil(longest / this.#pieceBytes());
    return { rounds: staged ? pieces : 1, staged, exposures };
  }

  #doPart({ call, plan, round, sequence }: PendingCall): void {
    const start = plan.staged ? round * this.#pieceBytes() : 0;
    const longest = Math.max(...plan.exposures.map((exposure) => exposure.byteLength));
    const stop = plan.staged ? Math.min(start + this.#pieceBytes(), longest) : longest;
    doPart(call, {
      memory: this.#memory,
      rank: this.#lanes.rank,
      start,
      stop,
      addresses: plan.exposures.map(({ staged, address }) => (staged ? address : address + start)),
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
    return this.#every(call.record, sequence, (rank) => this.#lanes.arrived(rank, sequence));
  }

  #allReached({ sequence, call }: PendingCall, step: number): boolean {
    return this.#every(call.record, sequence, (rank) => this.#lanes.step(rank, sequence) >= step);
  }

  #every(record: CallRecord, sequence: number, has: (rank: number) => boolean): boolean {
    for (let rank = 0; rank < this.#lanes.size; rank++) {
      if (has(rank)) continue;
      // In this order: a rank closes after its last step.
      if (this.#lanes.closed(rank) && !has(rank)) {
        const reason = `it closed the group before ${describeCall(record)} #${sequence} was done`;
        this.#owner.end({ rank: this.#lanes.members[rank], reason });
      }
      return false;
    }
    return true;
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
    this.#calls.splice(this.#calls.indexOf(pending), 1);
    settlement.reject(error);
    this.#owner.end({ rank: this.#lanes.members[this.#lanes.rank], reason: error.message });
    return false;
  }

  #at(sequence: number): PendingCall | undefined {
    return this.#calls[sequence - this.#completed];
  }

  #site(record: CallRecord, sequence: number): CallSite {
    return { operation: record.operation, sequence, rank: this.#lanes.rank };
  }
}
