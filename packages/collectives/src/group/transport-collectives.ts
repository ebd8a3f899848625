import type { CollectiveError } from '@shardwise/core/spec';
import { agree } from '../call/agree.ts';
import { CallQueue, type Movement } from '../call/call-queue.ts';
import { callsDifferError, type LateRanks, lostRecordError, sidesOf } from '../call/failure.ts';
import type { GroupCall, Transfer } from '../call/calls.ts';
import type { IssuedCall } from '../call/issued-call.ts';
import type { Operation } from '../call/record.ts';
import type { Reducer } from '../reduce/reducer.ts';
import { CallCommunicator } from './call-communicator.ts';
import { CALL_TAGS, type GroupEnd } from './group-end.ts';
import type { NativeCollectives, NativeGroups } from './native-groups.ts';
import { Meeting } from './meeting.ts';
import type { AlgorithmChoice } from './selection/algorithm-choice.ts';
import type { Algorithm } from './selection/algorithm.ts';
import { algorithms } from './selection/algorithms.ts';

/** What a group has in common with those split from it. */
export interface GroupSettings {
  /** Whether ranks compare their calls. */
  readonly verify: boolean;
  readonly reducer: Reducer;
  /** Of a transport that is one of a library with groups of its own. */
  readonly native?: NativeGroups;
}

/** The group as its movements see it. */
export interface MovementOwner {
  /** The call's messages have failed, or its ranks differ: it ends, and the group with it. */
  fail<Call extends GroupCall | Transfer, State>(
    queue: CallQueue<Call, State>,
    issued: IssuedCall<Call, State>,
    error: unknown,
  ): void;
  /** This rank has failed: ends the transport. */
  abort(reason: unknown): void;
}

/**
 * A call passes: issued → all ranks meet → it is the oldest, and they agree → its data has moved. Short data may
 * move while the ranks meet, by algorithms that write nothing before they have agreed.
 */
interface CallProgress {
  readonly algorithm: Algorithm;
  /** Of the algorithm, among those of its operation. */
  readonly algorithmNumber: number;
  readonly communicator: CallCommunicator;
  /** Undefined before it begins, and where ranks do not compare the call. */
  meeting: Meeting | undefined;
  hasMet: boolean;
  hasAgreed: boolean;
  /** Of data that has begun to move before the ranks have agreed: tells it that they have. */
  onAgreed: (() => void) | undefined;
  data: 'here' | 'moving' | 'moved';
  /** Of data that has failed before the ranks have agreed, which then comes first. */
  dataFailure: { readonly error: unknown } | undefined;
}

type PendingCall = IssuedCall<GroupCall, CallProgress>;

/** The data of a call may go along with its records, which is one call more. */
const AHEAD = CALL_TAGS - 1;
/** What a peer that has not made the call yet can well keep. */
const EAGER_BYTES = 1 << 20;
const AGREED: Promise<void> = Promise.resolve();

/** Moves one rank's collectives of one group, whose data moves in the order of issue. */
export class TransportCollectives implements Movement<GroupCall, CallProgress> {
  readonly queue: CallQueue<GroupCall, CallProgress>;
  readonly #group: GroupEnd;
  readonly #settings: GroupSettings;
  readonly #choice: AlgorithmChoice;
  readonly #owner: MovementOwner;
  readonly #native: NativeCollectives | undefined;
  readonly #unusedMeetings: Meeting[] = [];
  /** The first call whose record is not sent. */
  #toMeet: PendingCall | undefined;

  constructor(
    group: GroupEnd,
    settings: GroupSettings,
    choice: AlgorithmChoice,
    owner: MovementOwner,
  ) {
    this.#group = group;
    this.#settings = settings;
    this.#choice = choice;
    this.#owner = owner;
    this.#native = settings.native?.collectives(group.id);
    this.queue = new CallQueue(group.rank, this, { isTimed: true });
  }

  begin(call: GroupCall, sequence: number): CallProgress {
    const algorithm = this.#choice.algorithmFor(call.record);
    return {
      algorithm,
      algorithmNumber: numberOf(algorithm),
      communicator: new CallCommunicator(this.#group, sequence),
      meeting: undefined,
      hasMet: false,
      hasAgreed: false,
      onAgreed: undefined,
      data: 'here',
      dataFailure: undefined,
    };
  }

  move(issued: PendingCall): void {
    this.#toMeet ??= issued;
    this.#advance();
  }

  isMoving({ state }: PendingCall): boolean {
    return state.data === 'moving';
  }

  late({ state: { meeting, communicator } }: PendingCall): LateRanks {
    return { missing: meeting?.missing() ?? [], slow: [], awaited: communicator.awaited() };
  }

  abort(reason: unknown): void {
    this.#owner.abort(reason);
  }

  /**
   * No rank is at a call while another one is AHEAD calls behind: the data of both would have one tag, and what
   * is lost of the one be filled by the other.
   */
  #advance(): void {
    const { oldest } = this.queue;
    if (oldest === undefined) return;
    for (let issued = this.#toMeet; issued !== undefined; issued = this.#toMeet) {
      if (issued.sequence - oldest.sequence >= AHEAD) break;
      this.#toMeet = issued.next;
      this.#meet(issued);
    }
    this.#moveData(oldest);
  }

  #meet(issued: PendingCall): void {
    const { call, sequence, state } = issued;
    // A split lives by what the ranks tell each other.
    if (!this.#settings.verify && call.record.operation !== 'split') {
      state.hasMet = true;
      state.hasAgreed = true;
      return;
    }
    state.meeting = this.#unusedMeetings.pop() ?? new Meeting(this.#group);
    state.meeting.begin(
      { record: call.record, sequence, algorithm: state.algorithmNumber },
      {
        onMet: () => {
          state.hasMet = true;
          if (issued === this.queue.oldest) this.#moveData(issued);
        },
        onFailed: (error) => this.#owner.fail(this.queue, issued, error),
      },
    );
  }

  /** Of the oldest call. */
  #moveData(issued: PendingCall): void {
    const { call, state } = issued;
    if (!issued.isOpen) return;
    if (state.hasMet && !state.hasAgreed && !this.#agree(issued)) return;
    if (state.data === 'moved' && state.hasAgreed) {
      this.#finish(issued);
      return;
    }
    if (state.data !== 'here') return;
    const isEarly = state.algorithm.beginsEarly && call.input.byteLength <= EAGER_BYTES;
    if (!state.hasAgreed && !isEarly) return;
    state.data = 'moving';
    const agreed = state.hasAgreed
      ? AGREED
      : new Promise<void>((resolve) => {
          state.onAgreed = resolve;
        });
    if (state.hasAgreed) call.onStarted?.();
    const onMoved = (): void => {
      state.data = 'moved';
      if (issued.isOpen && state.hasAgreed) this.#finish(issued);
    };
    const onFailed = (error: unknown): void => {
      if (state.hasAgreed) this.#owner.fail(this.queue, issued, error);
      else state.dataFailure = { error };
    };
    const { reducer } = this.#settings;
    const options = { reducer, agreed, native: this.#native };
    state.algorithm.run(state.communicator, call, options).then(onMoved, onFailed);
  }

  #finish(issued: PendingCall): void {
    this.queue.settle(issued);
    this.#advance();
  }

  /** Whether all ranks are known to make this call. */
  #agree(issued: PendingCall): boolean {
    const { call, state } = issued;
    const { meeting } = state;
    if (meeting === undefined) return true;
    const error =
      this.#lostRecord(issued, meeting) ??
      agree(issued, meeting.records) ??
      this.#otherAlgorithm(issued, meeting);
    if (error !== undefined) {
      this.#owner.fail(this.queue, issued, error);
      return false;
    }
    this.#unusedMeetings.push(meeting);
    state.hasAgreed = true;
    if (state.dataFailure !== undefined) {
      this.#owner.fail(this.queue, issued, state.dataFailure.error);
      return false;
    }
    if (state.onAgreed !== undefined) {
      call.onStarted?.();
      state.onAgreed();
    }
    return true;
  }

  /** Ranks that do not compare their calls may have made more or fewer of them. */
  #lostRecord(issued: PendingCall, meeting: Meeting): CollectiveError | undefined {
    if (!this.#settings.verify) return undefined;
    const lost = meeting.sequences().findIndex((sequence) => sequence !== issued.sequence);
    if (lost < 0) return undefined;
    return lostRecordError(issued.label, lost, meeting.sequences()[lost]);
  }

  #otherAlgorithm(issued: PendingCall, meeting: Meeting): CollectiveError | undefined {
    const { algorithm, algorithmNumber } = issued.state;
    if (meeting.algorithms().every((number) => number === algorithmNumber)) return undefined;
    const how = meeting
      .algorithms()
      .map((number) => `${issued.description} by ${nameOf(algorithm.operation, number)}`);
    return callsDifferError(issued.label, sidesOf(how));
  }
}

/** Among those of its operation. */
function numberOf({ operation, name }: Algorithm): number {
  return algorithms[operation].findIndex((known) => known.name === name);
}

function nameOf(operation: Operation, number: number): string {
  return algorithms[operation][number]?.name ?? 'an unknown algorithm';
}
