import {
  ConfigError,
  ShardwiseError,
  type ProcessGroup,
  type TypedBytes,
} from '@shardwise/core/spec';
import { CheckedGroup, type Limits, type Transfer } from '../call/checked-group.ts';
import {
  abortedError,
  causeOf,
  mismatchError,
  reasonText,
  timeoutError,
  type AbortCause,
  type CallSite,
} from '../call/failure.ts';
import type { GroupCall } from '../call/group-call.ts';
import { membersOf } from '../call/members.ts';
import { decodeRecord, findMismatch } from '../call/record-codec.ts';
import { describeCall } from '../call/record.ts';
import { Settlement } from '../call/settlement.ts';
import type { Reducer } from '../reduce/reducer.ts';
import { groupWire, MAX_ID, MAX_SPLITS, type Membership } from './group-wire.ts';
import { meet, type Meeting } from './meet.ts';
import { runAlgorithm } from './run-algorithm.ts';

/** How many ranks have come to a call, for the message of a call that ends too late. */
type Missing = () => readonly number[];

/**
 * A group whose ranks send each other messages. Ranks meet for a call when it is issued; its data
 * moves when the calls before it are done.
 */
export class TransportGroup extends CheckedGroup {
  readonly #membership: Membership;
  readonly #verify: boolean;
  readonly #reducer: Reducer;
  /** Of the collectives that are not done, the last one. */
  #tail: Promise<unknown> | undefined;
  #calls = 0;
  #transfers = 0;
  #splits = 0;
  #ended: AbortCause | undefined;

  constructor(membership: Membership, verify: boolean, reducer: Reducer) {
    const { members, transport } = membership;
    super(members.indexOf(transport.rank), members.length, members);
    this.#membership = membership;
    this.#verify = verify;
    this.#reducer = reducer;
  }

  override close(reason?: Error): void {
    const { transport, id } = this.#membership;
    const text = reason === undefined ? 'it closed the group' : reasonText(reason);
    this.#ended ??= { rank: transport.rank, reason: text };
    // The transport is the world's; a part of it only ends it where it fails.
    if (id === 0 || reason !== undefined) transport.close(reason);
  }

  protected override run(call: GroupCall, limits: Limits): Promise<void> {
    const site = { operation: call.record.operation, sequence: this.#calls++, rank: this.rank };
    if (this.#ended !== undefined) return Promise.reject(abortedError(site, this.#ended));
    const meeting =
      this.#verify || call.record.operation === 'split'
        ? meet(groupWire(this.#membership, 'records'), call.record)
        : undefined;
    const done = this.#carryOut(call, site, meeting, this.#tail);
    const tail = done
      .catch(() => {})
      .finally(() => {
        if (this.#tail === tail) this.#tail = undefined;
      });
    this.#tail = tail;
    const missing = meeting?.missing ?? (() => []);
    return this.#limit(done, site, describeCall(call.record), missing, limits);
  }

  protected override transfer(transfer: Transfer, limits: Limits): Promise<void> {
    const { operation, buffer, peer, tag } = transfer;
    const site = { operation, sequence: this.#transfers++, rank: this.rank };
    if (this.#ended !== undefined) return Promise.reject(abortedError(site, this.#ended));
    const wire = groupWire(this.#membership, { tag });
    const done =
      operation === 'send' ? wire.send(peer, buffer.bytes) : wire.recv(peer, buffer.bytes);
    const call = `${operation}(peer ${peer}, tag ${tag}, ${describeBuffer(buffer)})`;
    return this.#limit(done, site, call, () => [peer], limits);
  }

  protected override async divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined> {
    const { transport, members: parents, id: parentId } = this.#membership;
    this.#splits += 1;
    const id = parentId * (MAX_SPLITS + 1) + this.#splits;
    if (this.#splits > MAX_SPLITS || id >= MAX_ID) throw tooManySplitsError(this.#splits);
    const met = await this.exchange({ ...member, channel: 0 }, limits);
    const ranks = membersOf(this.rank, met);
    if (ranks === undefined) return undefined;
    const members = ranks.map((rank) => parents[rank]!);
    return new TransportGroup({ transport, members, id }, this.#verify, this.#reducer);
  }

  async #carryOut(
    call: GroupCall,
    site: CallSite,
    meeting: Meeting | undefined,
    before: Promise<unknown> | undefined,
  ): Promise<void> {
    const agreed = this.#agree(call, site, meeting);
    const wire = groupWire(this.#membership, 'data');
    const { operation } = call.record;
    const isShort = call.input.byteLength <= EAGER_BYTES;
    if (before === undefined && operation === 'allReduce' && isShort) {
      // Its data may go along with the records, as it changes nothing before they have agreed.
      const done = runAlgorithm(wire, call, { reducer: this.#reducer, agreed });
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
    await runAlgorithm(wire, call, { reducer: this.#reducer, agreed });
  }

  /** Settles when all ranks are known to make this call. */
  async #agree(call: GroupCall, site: CallSite, meeting: Meeting | undefined): Promise<void> {
    if (meeting === undefined) return;
    const records = await meeting.records;
    const pair = findMismatch(records);
    if (pair !== undefined) throw mismatchError(site, records, pair);
    call.onMet?.(records.flatMap((fields) => decodeRecord(fields, this.size) ?? []));
  }

  /** A failure of a call is one of the group: its ranks no longer agree on what comes next. */
  #limit(
    done: Promise<void>,
    site: CallSite,
    call: string,
    missing: Missing,
    limits: Limits,
  ): Promise<void> {
    const settlement = new Settlement(limits, (reason) => this.#fail(toError(reason)));
    const { timeoutMs } = settlement;
    const timer = setTimeout(
      () => {
        const error = timeoutError(site, call, timeoutMs, { missing: missing(), slow: [] });
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
    const cause = this.#ended ?? causeOf(error, own);
    this.#ended ??= cause;
    // Of a mismatch in a collective every rank learns by itself, of one in a message the sender does not.
    if (isMismatch && site.operation === 'recv') this.#membership.transport.close(error);
    return isMismatch ? error : abortedError(site, cause, { cause: error });
  }

  #fail(error: Error): void {
    const { transport } = this.#membership;
    this.#ended ??= { rank: transport.rank, reason: reasonText(error) };
    transport.close(error);
  }
}

/** What a peer that has not made the call yet can well keep. */
const EAGER_BYTES = 1 << 20;
const MAX_TIMER_MS = 2 ** 31 - 1;

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
