import type { CollectiveError } from '@shardwise/core/spec';
import { agree, type Disagreement } from '../call/agree.ts';
import { CallQueue, type Movement } from '../call/call-queue.ts';
import { callsDifferError, type LateRanks, lostRecordError, sidesOf } from '../call/failure.ts';
import type { GroupCall, Transfer } from '../call/calls.ts';
import type { IssuedCall } from '../call/issued-call.ts';
import type { Operation } from '../call/record.ts';
import type { Reducer } from '../reduce/reducer.ts';
import { CallCommunicator } from './call-communicator.ts';
import { CALL_TAGS, type GroupEnd } from './group-end.ts';
import type { NativeCollectives, NativeGroups } from './selection/native-groups.ts';
import { CallAgreement } from './call-agreement.ts';
import type { AlgorithmChoice } from './selection/algorithm-choice.ts';
import type { Algorithm } from './selection/algorithm.ts';
import { algorithms } from './selection/algorithms.ts';

/** What a group has in common with the groups that are split from it. */
export interface GroupSettings {
  /** Whether ranks compare their calls. */
  readonly verify: boolean;
  readonly reducer: Reducer;
  /** Groups of the library to which the transport belongs, if it belongs to one. */
  readonly native?: NativeGroups;
}

/** The group, as its two movements see it. */
export interface MovementOwner {
  /** Ends the call and with it the group, because the call's messages have failed or its ranks differ. */
  fail<Call extends GroupCall | Transfer, State>(
    queue: CallQueue<Call, State>,
    issued: IssuedCall<Call, State>,
    error: unknown,
  ): void;
  /** Ends the transport, because this rank has failed. */
  abort(reason: unknown): void;
}

/**
 * How far a call has come. First it is issued, and then all ranks meet. When it is the oldest call, they agree, and
 * then its data moves. Short data may move while the ranks meet, by algorithms that write nothing before the ranks have
 * agreed.
 */
interface CallProgress {
  readonly algorithm: Algorithm;
  /** The number of the algorithm among those of its operation. */
  readonly algorithmNumber: number;
  readonly communicator: CallCommunicator;
  /** Undefined before the agreement begins, and if ranks do not compare the call. */
  agreement: CallAgreement | undefined;
  hasMet: boolean;
  /**
   * Why the agreement failed. It is reported when the call is the oldest one, because a difference in an earlier call
   * explains why a rank has left.
   */
  agreementFailure?: { readonly error: unknown };
  hasAgreed: boolean;
  /** Whether ranks that differ are telling each other what their calls are. */
  isNaming: boolean;
  /** Is called when the ranks have agreed, if data began to move before. */
  onAgreed: (() => void) | undefined;
  data: 'here' | 'moving' | 'moved';
  /**
   * Why data failed before the ranks had agreed. It is reported after they have agreed, because a difference between
   * their calls explains more.
   */
  dataFailure: { readonly error: unknown } | undefined;
}

type PendingCall = IssuedCall<GroupCall, CallProgress>;

/**
 * How many calls, from the oldest one on, may send their records. They are one fewer than the calls whose data
 * has tags of its own, because a peer that has come further may already send the data of the next call.
 */
const AHEAD = CALL_TAGS - 1;
/**
 * The most bytes of data that are sent before the ranks have agreed. A peer that has not made the call yet has to keep
 * them.
 */
const EAGER_BYTES = 1 << 20;
const AGREED: Promise<void> = Promise.resolve();

/** Moves one rank's collectives of one group. Their data moves in the order of issue. */
export class TransportCollectives implements Movement<GroupCall, CallProgress> {
  readonly queue: CallQueue<GroupCall, CallProgress>;
  readonly #group: GroupEnd;
  readonly #settings: GroupSettings;
  readonly #choice: AlgorithmChoice;
  readonly #owner: MovementOwner;
  readonly #native: NativeCollectives | undefined;
  readonly #unusedAgreements: CallAgreement[] = [];
  /** The first call whose record has not been sent. */
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
      agreement: undefined,
      hasMet: false,
      hasAgreed: false,
      isNaming: false,
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

  late({ state: { agreement, communicator } }: PendingCall): LateRanks {
    return { missing: agreement?.missing() ?? [], slow: [], awaited: communicator.awaited() };
  }

  abort(reason: unknown): void {
    this.#owner.abort(reason);
  }

  /**
   * Begins the agreements on calls that are within AHEAD of the oldest one, and moves the data of the oldest one. Without
   * this limit the data of two calls would have the same tags, and data of one could fill a gap that lost data of the
   * other has left.
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
    // Ranks compare a split even without `verify`, because they learn its colours and keys that way.
    if (!this.#settings.verify && call.record.operation !== 'split') {
      state.hasMet = true;
      state.hasAgreed = true;
      return;
    }
    state.agreement = this.#unusedAgreements.pop() ?? new CallAgreement(this.#group);
    state.agreement.begin(
      { record: call.record, sequence, algorithm: state.algorithmNumber },
      {
        onAgreed: () => {
          state.hasMet = true;
          if (issued === this.queue.oldest) this.#moveData(issued);
        },
        onFailed: (error) => {
          state.agreementFailure ??= { error };
          if (issued === this.queue.oldest) this.#moveData(issued);
        },
      },
    );
  }

  /** Moves the data of the oldest call as far as it can move now. */
  #moveData(issued: PendingCall): void {
    const { call, state } = issued;
    if (!issued.isOpen) return;
    if (state.agreementFailure !== undefined) {
      this.#owner.fail(this.queue, issued, state.agreementFailure.error);
      return;
    }
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

  /** Whether all ranks are known to make this call. If they differ, the call fails. */
  #agree(issued: PendingCall): boolean {
    const { call, state } = issued;
    const { agreement } = state;
    if (agreement === undefined) return true;
    if (state.isNaming) return false;
    const lost = this.#lostRecord(issued, agreement);
    const disagreement = lost === undefined ? agree(issued, agreement.records) : undefined;
    if (disagreement !== undefined) {
      state.isNaming = true;
      void this.#disagree(issued, disagreement);
      return false;
    }
    const error = lost ?? this.#otherAlgorithm(issued, agreement);
    if (error !== undefined) {
      this.#owner.fail(this.queue, issued, error);
      return false;
    }
    this.#unusedAgreements.push(agreement);
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

  /** Fails a call whose ranks differ, when they have told each other what their calls are. */
  async #disagree(issued: PendingCall, disagreement: Disagreement): Promise<void> {
    const { exchangeNames } = await import('./exchange-names.ts');
    const names = await exchangeNames(this.#group, disagreement.text);
    this.#owner.fail(this.queue, issued, disagreement.error(names));
  }

  /**
   * Finds a rank whose record is that of another call. Without `verify` this is no error, because the ranks do not
   * compare all calls and may have made different numbers of them.
   */
  #lostRecord(issued: PendingCall, agreement: CallAgreement): CollectiveError | undefined {
    if (!this.#settings.verify) return undefined;
    const lost = agreement.sequences().findIndex((sequence) => sequence !== issued.sequence);
    if (lost < 0) return undefined;
    return lostRecordError(issued.label, lost, agreement.sequences()[lost]);
  }

  #otherAlgorithm(issued: PendingCall, agreement: CallAgreement): CollectiveError | undefined {
    const { algorithm, algorithmNumber } = issued.state;
    if (agreement.algorithms().every((number) => number === algorithmNumber)) return undefined;
    const how = agreement
      .algorithms()
      .map((number) => `${issued.description} by ${nameOf(algorithm.operation, number)}`);
    return callsDifferError(issued.label, sidesOf(how));
  }
}

/** The number of an algorithm among those of its operation. */
function numberOf({ operation, name }: Algorithm): number {
  return algorithms[operation].findIndex((known) => known.name === name);
}

function nameOf(operation: Operation, number: number): string {
  return algorithms[operation][number]?.name ?? 'an unknown algorithm';
}
