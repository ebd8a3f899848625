import {
  ConfigError,
  ShardwiseError,
  type ProcessGroup,
  type TypedBytes,
} from '@shardwise/core/spec';
import type { Limits } from '../call/call-options.ts';
import { CheckedGroup, type Transfer } from '../call/checked-group.ts';
import {
  abortedError,
  callsDifferError,
  causeOf,
  lostRecordError,
  mismatchError,
  sidesOf,
  timeoutError,
  type AbortCause,
  type CallSite,
} from '../call/failure.ts';
import type { GroupCall } from '../call/group-call.ts';
import { membersOf } from '../call/members.ts';
import { decodeRecord, findMismatch } from '../call/record-codec.ts';
import { describeCall, type Operation } from '../call/record.ts';
import { Settlement } from '../call/settlement.ts';
import type { Reducer } from '../reduce/reducer.ts';
import type { Wire } from '../algorithms/wire.ts';
import {
  CALL_TAGS,
  callWire,
  groupWire,
  MAX_ID,
  MAX_SPLITS,
  wireEnds,
  type CallWire,
  type Membership,
  type WireEnds,
} from './group-wire.ts';
import { meet, meetAfter, type Meeting } from './meet.ts';
import type { AlgorithmChoice } from './selection/algorithm-choice.ts';
import type { Algorithm } from './selection/algorithm.ts';
import { algorithms } from './selection/algorithms.ts';
import { ranksByHost } from './topology.ts';

/** What a group has in common with those split from it. */
export interface GroupSettings {
  /** Whether ranks compare their calls. */
  readonly verify: boolean;
  readonly reducer: Reducer;
}

/** Of a call that ends too late: who has not come, and from whom messages are awaited. */
interface Late {
  readonly missing: () => readonly number[];
  readonly awaited: () => readonly number[];
}

/**
 * A group whose ranks send each other messages. Ranks meet for a call when it is issued; its data
 * moves when the calls before it are done.
 */
export class TransportGroup extends CheckedGroup {
  readonly #membership: Membership;
  readonly #settings: GroupSettings;
  readonly #choice: AlgorithmChoice;
  readonly #ends: WireEnds;
  readonly #records: Wire;
  /** Of the collectives that are not done, the last one. */
  #tail: Promise<unknown> | undefined;
  /** Of the last calls, when they are done: the n-th at n modulo AHEAD. */
  readonly #recent: (Promise<unknown> | undefined)[] = [];
  #calls = 0;
  #finished = 0;
  #transfers = 0;
  #splits = 0;
  #ended: AbortCause | undefined;

  constructor(membership: Membership, settings: GroupSettings, choice: AlgorithmChoice) {
    const { members, transport } = membership;
    super(members.indexOf(transport.rank), members.length, members);
    this.#membership = membership;
    this.#settings = settings;
    this.#choice = choice;
    this.#ends = wireEnds(membership);
    this.#records = groupWire(membership, 'records');
  }

  override close(reason?: Error): void {
    const { transport, id } = this.#membership;
    this.#ended ??=
      reason === undefined
        ? { rank: transport.rank, reason: 'it closed the group' }
        : causeOf(reason, transport.rank);
    // The transport is the world's; a part of it only ends it where it fails.
    if (id === 0 || reason !== undefined) transport.close(reason);
  }

  protected override run(call: GroupCall, limits: Limits): Promise<void> {
    const site = { operation: call.record.operation, sequence: this.#calls++, rank: this.rank };
    if (this.#ended !== undefined) return Promise.reject(abortedError(site, this.#ended));
    const algorithm = this.#choice.algorithmFor(call.record);
    const meeting =
      this.#settings.verify || call.record.operation === 'split'
        ? this.#meet(call, algorithm, site)
        : undefined;
    const wire = callWire(this.#ends, site.sequence);
    const done = this.#carryOut({ call, algorithm, site, wire, meeting, before: this.#tail });
    const settle = (): void => {
      this.#finished += 1;
      if (this.#tail === tail) this.#tail = undefined;
    };
    const tail = done.then(settle, settle);
    this.#tail = tail;
    this.#recent[site.sequence % AHEAD] = tail;
    const late = { missing: meeting?.missing ?? (() => []), awaited: wire.awaited };
    return this.#limit(done, site, () => describeCall(call.record), late, limits);
  }

  protected override transfer(transfer: Transfer, limits: Limits): Promise<void> {
    const { operation, buffer, peer, tag } = transfer;
    const site = { operation, sequence: this.#transfers++, rank: this.rank };
    if (this.#ended !== undefined) return Promise.reject(abortedError(site, this.#ended));
    const wire = groupWire(this.#membership, { tag });
    const done =
      operation === 'send' ? wire.send(peer, buffer.bytes) : wire.recv(peer, buffer.bytes);
    const call = (): string => `${operation}(peer ${peer}, tag ${tag}, ${describeBuffer(buffer)})`;
    return this.#limit(done, site, call, { missing: () => [peer], awaited: () => [] }, limits);
  }

  protected override async divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined> {
    const { transport, members: parents, hosts, id: parentId } = this.#membership;
    this.#splits += 1;
    const id = parentId * (MAX_SPLITS + 1) + this.#splits;
    if (this.#splits > MAX_SPLITS || id >= MAX_ID) throw tooManySplitsError(this.#splits);
    const met = await this.exchange({ ...member, channel: 0 }, limits);
    const ranks = membersOf(this.rank, met);
    if (ranks === undefined) return undefined;
    const members = ranks.map((rank) => parents[rank]!);
    const choice = this.#choice.for(ranksByHost(members.map((rank) => hosts[rank] ?? 0)));
    return new TransportGroup({ transport, members, hosts, id }, this.#settings, choice);
  }

  /**
   * No rank is at a call while another one is AHEAD calls behind: the data of both would have one tag, and what
   * is lost of the one be filled by the other.
   */
  #meet({ record }: GroupCall, algorithm: Algorithm, { sequence }: CallSite): Meeting {
    const begin = (): Meeting =>
      meet(this.#records, record, { algorithm: numberOf(algorithm), sequence });
    if (sequence - this.#finished < AHEAD) return begin();
    return meetAfter(this.#recent[sequence % AHEAD], begin);
  }

  async #carryOut({ call, algorithm, site, wire, meeting, before }: Issued): Promise<void> {
    const agreed = this.#agree(call, site, meeting);
    const options = { reducer: this.#settings.reducer, agreed };
    const isShort = call.input.byteLength <= EAGER_BYTES;
    if (before === undefined && algorithm.beginsEarly && isShort) {
      // Its data may go along with the records, as it changes nothing before they have agreed.
      const done = algorithm.run(wire, call, options);
      done.catch(() => {});
      await agreed;
      call.onStarted?.();
      await done;
      return;
    }
    await agreed;
    await before;
    if (this.#ended !== undefined) throw abortedError(site, this.#ended);
    call.onStarted?.();
    await algorithm.run(wire, call, options);
  }

  /** Settles when all ranks are known to make this call. */
  async #agree(call: GroupCall, site: CallSite, meeting: Meeting | undefined): Promise<void> {
    if (meeting === undefined) return;
    const { records, algorithms: chosen, sequences } = await meeting.met;
    const lost = sequences.findIndex((sequence) => sequence !== site.sequence);
    // Ranks that do not compare their calls may have made more or fewer of them.
    if (lost >= 0 && this.#settings.verify) throw lostRecordError(site, lost, sequences[lost]);
    const pair = findMismatch(records);
    if (pair !== undefined) throw mismatchError(site, records, pair);
    if (chosen.some((number) => number !== chosen[0])) {
      const how = chosen.map(
        (number) => `${describeCall(call.record)} by ${nameOf(call.record.operation, number)}`,
      );
      throw callsDifferError(site, sidesOf(how));
    }
    call.onMet?.(records.flatMap((fields) => decodeRecord(fields, this.size) ?? []));
  }

  /** A failure of a call is one of the group: its ranks no longer agree on what comes next. */
  #limit(
    done: Promise<void>,
    site: CallSite,
    call: () => string,
    late: Late,
    limits: Limits,
  ): Promise<void> {
    const settlement = new Settlement(limits, (reason) => this.#fail(toError(reason)));
    const { timeoutMs } = settlement;
    const timer = setTimeout(
      () => {
        const error = timeoutError(site, call(), timeoutMs, {
          missing: late.missing(),
          slow: [],
          awaited: late.awaited(),
        });
        settlement.reject(error);
        this.#fail(error);
      },
      Math.min(timeoutMs, MAX_TIMER_MS),
    );
    const settle = async (): Promise<void> => {
      try {
        await done;
        settlement.resolve();
      } catch (error) {
        settlement.reject(this.#failed(error, site));
      } finally {
        clearTimeout(timer);
      }
    };
    void settle();
    return settlement.promise;
  }

  /** What a call rejects with when its messages have failed with `error`. */
  #failed(error: unknown, site: CallSite): Error {
    const own = this.#membership.transport.rank;
    const isMismatch = ShardwiseError.isInstance(error) && error.code === 'COLLECTIVE_MISMATCH';
    const isLoss = ShardwiseError.isInstance(error) && 'lostBetween' in error.fields;
    const cause = this.#ended ?? causeOf(error, own);
    this.#ended ??= cause;
    // Of a mismatch in a collective every rank learns by itself, of one in a message the sender does not.
    const isUnknown = isLoss || (isMismatch && site.operation === 'recv');
    if (isUnknown) this.#membership.transport.close(error);
    return isMismatch || isLoss ? error : abortedError(site, cause, { cause: error });
  }

  #fail(error: Error): void {
    const { transport } = this.#membership;
    this.#ended ??= causeOf(error, transport.rank);
    transport.close(error);
  }
}

interface Issued {
  readonly call: GroupCall;
  readonly algorithm: Algorithm;
  readonly site: CallSite;
  readonly wire: CallWire;
  readonly meeting: Meeting | undefined;
  readonly before: Promise<unknown> | undefined;
}

/** The data of a call may go along with its records, which is one call more. */
const AHEAD = CALL_TAGS - 1;
/** What a peer that has not made the call yet can well keep. */
const EAGER_BYTES = 1 << 20;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Among those of its operation. */
function numberOf({ operation, name }: Algorithm): number {
  return algorithms[operation].findIndex((known) => known.name === name);
}

function nameOf(operation: Operation, number = -1): string {
  return algorithms[operation][number]?.name ?? 'an unknown algorithm';
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

function describeBuffer({ bytes, dtype }: TypedBytes): string {
  return `${dtype}, ${bytes.byteLength} bytes`;
}

function tooManySplitsError(splits: number): ConfigError {
  return new ConfigError(
    {
      asked: `Split ${splits} of a group`,
      found: `a group can be split ${MAX_SPLITS} times, its parts and theirs to a depth of 3`,
      todo: 'Keep the groups of an earlier split',
    },
    { splits, maxSplits: MAX_SPLITS },
  );
}
