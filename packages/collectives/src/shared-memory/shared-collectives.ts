import { reasonText, type AbortCause } from '@shardwise/core/spec';
import { agree, type Disagreement } from '../call/agree.ts';
import { encodeName, NAMES_MS } from '../call/call-names.ts';
import { CallQueue, type Movement } from '../call/call-queue.ts';
import type { LateRanks } from '../call/failure.ts';
import type { GroupCall } from '../call/calls.ts';
import type { IssuedCall } from '../call/issued-call.ts';
import type { CallSlots } from './call-slots.ts';
import { doShare, Window } from './shares.ts';
import type { SharedMemory } from './shared-memory.ts';

/**
 * How far a call has come. It is published, and then all ranks arrive. Then, in each round, this rank stages its
 * fragment, does its share of the work and takes its fragment back. Then all ranks are done. A call whose buffers are
 * all in the shared memory has one round, and nothing is staged.
 */
interface CallProgress {
  /** Whether this rank's input passes through the staging area. It is known when the call is published. */
  isStaged: boolean;
  phase: 'meeting' | 'filling' | 'working' | 'emptying';
  round: number;
  /** It is known when all ranks have arrived. */
  rounds: Rounds;
  /** What to do if the ranks' calls differ. */
  disagreement: Disagreement | undefined;
  /** When this rank no longer waits for what the others say of their calls, on the clock of performance.now(). */
  namesUntil: number;
}

type PendingCall = IssuedCall<GroupCall, CallProgress>;

/**
 * The rounds of a call, one for each fragment. `count` is 0 if no rank exposes anything, as in a barrier. `staged` says
 * whether any rank stages its fragments. `longestBytes` is the length of the longest input.
 */
interface Rounds {
  readonly count: number;
  readonly staged: boolean;
  readonly longestBytes: number;
}

const NOTHING: Rounds = { count: 0, staged: false, longestBytes: 0 };
const UNKNOWN: Rounds = { count: 1, staged: false, longestBytes: 0 };

/** The group, as its two movements see it. */
export interface MovementOwner {
  /** Called when new calls were issued. */
  poke(): void;
  /** Ends the group, because this rank has found out that it has ended. */
  end(cause: AbortCause): void;
  /** Ends the world, because this rank has failed. */
  abort(reason: unknown): void;
}

/**
 * Moves one rank's collectives of one group, in the order of issue. A call is published before the earlier ones
 * are done. The rank does its share of a call as soon as all ranks have arrived at it and it has done its share
 * of the earlier ones. So no rank waits for a slower one before it must.
 */
export class SharedCollectives implements Movement<GroupCall, CallProgress> {
  readonly queue: CallQueue<GroupCall, CallProgress>;
  readonly #slots: CallSlots;
  readonly #memory: SharedMemory;
  readonly #owner: MovementOwner;
  readonly #window: Window;
  readonly #stagingAddress: number;
  /** The first call that is not published, and in `#toWork` the first one of which this rank's share is not done. */
  #toPublish: PendingCall | undefined;
  #toWork: PendingCall | undefined;
  #completed = 0;

  constructor(slots: CallSlots, memory: SharedMemory, owner: MovementOwner) {
    this.#slots = slots;
    this.#memory = memory;
    this.#owner = owner;
    this.#window = new Window(slots, memory);
    const { control, channel, members, rank } = slots;
    this.#stagingAddress = control.map.staging(channel, members[rank] ?? 0, 'collective');
    this.queue = new CallQueue(slots.rank, this, { isTimed: false });
  }

  begin(): CallProgress {
    return {
      isStaged: false,
      phase: 'meeting',
      round: 0,
      rounds: UNKNOWN,
      disagreement: undefined,
      namesUntil: 0,
    };
  }

  move(issued: PendingCall): void {
    this.#toPublish ??= issued;
    this.#toWork ??= issued;
    this.#owner.poke();
  }

  /** Always false. Peers read and write only the shared memory, and do nothing for calls of a group that has ended. */
  isMoving(): boolean {
    return false;
  }

  abort(reason: unknown): void {
    this.#owner.abort(reason);
  }

  late(issued: PendingCall): LateRanks {
    const { sequence } = issued;
    const ranks = [...this.#slots.members.keys()];
    const missing = ranks.filter((rank) => !this.#slots.arrived(rank, sequence));
    const slow = ranks.filter(
      (rank) => !missing.includes(rank) && rank !== this.#slots.rank && !this.#isDone(issued, rank),
    );
    return { missing, slow };
  }

  /** Does what has become possible. Returns whether there was anything. */
  advance(): boolean {
    if (this.queue.oldest === undefined) return false;
    let moved = false;
    for (let issued = this.#toPublish; issued !== undefined; issued = this.#toPublish) {
      if (!this.#slots.slotIsFree(issued.sequence)) break;
      this.#publish(issued);
      this.#toPublish = issued.next;
      moved = true;
    }
    for (let issued = this.#toWork; issued !== this.#toPublish; issued = this.#toWork) {
      if (issued === undefined) break;
      const { state } = issued;
      const { phase, round } = state;
      const shareDone = this.#work(issued);
      moved ||= shareDone || state.phase !== phase || state.round !== round;
      if (!shareDone) break;
      this.#toWork = issued.next;
    }
    for (let issued = this.queue.oldest; issued !== this.#toWork; issued = this.queue.oldest) {
      if (issued === undefined || !this.#allReached(issued, 2 * issued.state.rounds.count)) break;
      this.#takeBack(issued);
      this.#completed += 1;
      this.#slots.setCompleted(this.#completed);
      this.queue.settle(issued);
      moved = true;
    }
    return moved;
  }

  /**
   * Rejects a call at which all ranks have arrived and do not agree. The rank that noticed it first may have ended the
   * world, but each rank has to hear which calls the ranks made.
   */
  rejectDisagreement(): void {
    const issued = this.#toWork;
    if (issued?.state.phase !== 'meeting' || issued === this.#toPublish) return;
    const { members } = this.#slots;
    const hasArrived = (_: number, rank: number): boolean =>
      this.#slots.arrived(rank, issued.sequence);
    if (members.every(hasArrived) && !this.#agree(issued)) this.#disagree(issued);
  }

  /** Works on a call as far as possible. Returns whether this rank's share of it is done. */
  #work(issued: PendingCall): boolean {
    const { state, sequence } = issued;
    if (state.phase === 'meeting') {
      if (!this.#allArrived(issued) || !this.#agree(issued)) return false;
      state.rounds = this.#roundsOf(issued);
      issued.call.onStarted?.();
      state.phase = 'filling';
    }
    const { count, staged } = state.rounds;
    if (count === 0) return true;
    for (;;) {
      if (state.phase === 'filling') {
        // The staging area still belongs to the call before.
        if (state.isStaged && this.#completed < sequence) return false;
        this.#fill(issued);
        if (staged) this.#slots.setReached(sequence, 2 * state.round + 1);
        state.phase = 'working';
      }
      if (state.phase === 'working') {
        if (staged && !this.#allReached(issued, 2 * state.round + 1)) return false;
        this.#doShare(issued);
        this.#slots.setReached(sequence, 2 * state.round + 2);
        if (state.round + 1 === count) return true;
        state.phase = 'emptying';
      }
      if (!this.#allReached(issued, 2 * state.round + 2)) return false;
      this.#takeBack(issued);
      state.round += 1;
      state.phase = 'filling';
    }
  }

  #publish({ call: { input, record }, state, sequence }: PendingCall): void {
    const { byteLength } = input;
    const { dtype } = record;
    state.isStaged = byteLength > 0 && !this.#memory.holds(input, dtype);
    const address = state.isStaged ? this.#stagingAddress : input.byteOffset;
    this.#slots.expose(sequence, address, byteLength, state.isStaged);
    this.#slots.publish(sequence, record);
  }

  #roundsOf({ call, sequence }: PendingCall): Rounds {
    // The ranks agree on the dtype. Without one no data moves.
    if (call.record.dtype === undefined) return NOTHING;
    const slots = this.#slots;
    let staged = false;
    let longestBytes = 0;
    for (let rank = 0; rank < slots.size; rank++) {
      staged ||= slots.isStaged(rank, sequence);
      longestBytes = Math.max(longestBytes, slots.byteLength(rank, sequence));
    }
    if (longestBytes === 0) return NOTHING;
    const count = staged ? Math.ceil(longestBytes / this.#fragmentBytes()) : 1;
    return { count, staged, longestBytes };
  }

  #doShare({ call, state: { rounds, round }, sequence }: PendingCall): void {
    const { staged, longestBytes } = rounds;
    const start = staged ? round * this.#fragmentBytes() : 0;
    const stop = staged ? Math.min(start + this.#fragmentBytes(), longestBytes) : longestBytes;
    this.#window.moveTo(sequence, start, stop);
    doShare(call, this.#window);
  }

  #fill({ call: { input }, state: { isStaged, round } }: PendingCall): void {
    if (!isStaged) return;
    const start = round * this.#fragmentBytes();
    this.#memory.copyIn(input.subarray(start, start + this.#fragmentBytes()), this.#stagingAddress);
  }

  /** Copies what peers have written to the staged fragment into the buffer of a call in place. */
  #takeBack({ call: { input, output }, state: { isStaged, round } }: PendingCall): void {
    if (!isStaged || input !== output) return;
    const start = round * this.#fragmentBytes();
    // A buffer that is shorter than those of other ranks has nothing in their last fragments.
    const byteLength = Math.min(this.#fragmentBytes(), Math.max(output.byteLength - start, 0));
    this.#memory.copyOut(this.#stagingAddress, output, start, byteLength);
  }

  #fragmentBytes(): number {
    return this.#slots.control.map.stagingBytes;
  }

  #allArrived(issued: PendingCall): boolean {
    const slots = this.#slots;
    const { sequence } = issued;
    for (let rank = 0; rank < slots.size; rank++) {
      if (slots.arrived(rank, sequence)) continue;
      // A rank closes only after its last call, so the order of these two reads matters.
      if (slots.closed(rank) && !slots.arrived(rank, sequence)) this.#endAt(rank, issued);
      return false;
    }
    return true;
  }

  #allReached(issued: PendingCall, target: number): boolean {
    const slots = this.#slots;
    const { sequence } = issued;
    for (let rank = 0; rank < slots.size; rank++) {
      if (slots.reached(rank, sequence) >= target) continue;
      if (slots.closed(rank) && slots.reached(rank, sequence) < target) this.#endAt(rank, issued);
      return false;
    }
    return true;
  }

  #endAt(rank: number, { description, sequence }: PendingCall): void {
    const reason = `it closed the group before ${description} #${sequence} was done`;
    this.#owner.end({ rank: this.#slots.members[rank], reason });
  }

  #isDone({ sequence, state }: PendingCall, rank: number): boolean {
    return this.#slots.reached(rank, sequence) >= 2 * state.rounds.count;
  }

  #agree(issued: PendingCall): boolean {
    const { sequence, state } = issued;
    state.disagreement ??= agree(issued, this.#slots.records(sequence));
    if (state.disagreement === undefined) return true;
    const names = this.#slots.names(sequence);
    if (names[this.#slots.rank] === undefined) {
      state.namesUntil = performance.now() + NAMES_MS;
      this.#slots.writeName(sequence, encodeName(state.disagreement.text));
      setTimeout(() => this.#owner.poke(), NAMES_MS + 1);
    }
    const isComplete = this.#slots.names(sequence).every((name) => name !== undefined);
    if (isComplete || performance.now() > state.namesUntil) this.#disagree(issued);
    return false;
  }

  /** Rejects a call whose ranks differ, and ends the group on this rank. */
  #disagree(issued: PendingCall): void {
    const names = this.#slots.names(issued.sequence).map((name) => name ?? '');
    const error = issued.state.disagreement?.error(names);
    if (error === undefined) return;
    this.queue.reject(issued, error);
    this.#owner.end({ rank: this.#slots.members[this.#slots.rank], reason: reasonText(error) });
  }
}
