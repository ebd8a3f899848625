import {
  type AbortCause,
  abortCauseOf,
  ConfigError,
  type ProcessGroup,
  ShardwiseError,
} from '@shardwise/core/spec';
import type { Limits } from '../call/call-options.ts';
import type { CallQueue } from '../call/call-queue.ts';
import { CheckedGroup } from '../call/checked-group.ts';
import { abortedError } from '../call/aborted-error.ts';
import type { GroupCall, Transfer } from '../call/calls.ts';
import type { IssuedCall } from '../call/issued-call.ts';
import { membersOf } from '../call/record.ts';
import { groupEnd, MAX_ID, MAX_SPLITS, type Membership } from './group-end.ts';
import type { AlgorithmChoice } from './selection/algorithm-choice.ts';
import { ranksByHost } from './topology.ts';
import {
  type GroupSettings,
  type MovementOwner,
  TransportCollectives,
} from './transport-collectives.ts';
import { TransportMessages } from './transport-messages.ts';

/** A group whose ranks send each other messages over a transport. */
export class TransportGroup extends CheckedGroup {
  readonly #membership: Membership;
  readonly #settings: GroupSettings;
  readonly #choice: AlgorithmChoice;
  readonly #collectives: TransportCollectives;
  readonly #messages: TransportMessages;
  #splits = 0;

  constructor(membership: Membership, settings: GroupSettings, choice: AlgorithmChoice) {
    const { members, transport } = membership;
    super(members.indexOf(transport.rank), members.length, members);
    this.#membership = membership;
    this.#settings = settings;
    this.#choice = choice;
    const owner: MovementOwner = {
      fail: (queue, issued, error) => this.#fail(queue, issued, error),
      abort: (reason) => this.close(reason instanceof Error ? reason : new Error(String(reason))),
    };
    const end = groupEnd(membership);
    this.#collectives = new TransportCollectives(end, settings, choice, owner);
    this.#messages = new TransportMessages(end, settings, owner);
  }

  /**
   * Closes the transport if this group is the world, or if there is a reason. A group that was split from the
   * world leaves the transport open for the other groups.
   */
  override close(reason?: Error): void {
    const { transport, id } = this.#membership;
    this.#end(
      reason === undefined
        ? { rank: transport.rank, reason: 'it closed the group' }
        : abortCauseOf(reason, transport.rank),
    );
    if (id === 0 || reason !== undefined) transport.close(reason);
    else this.#settings.native?.leave(id);
  }

  protected override get collectives(): TransportCollectives['queue'] {
    return this.#collectives.queue;
  }

  protected override get transfers(): TransportMessages['queue'] {
    return this.#messages.queue;
  }

  protected override async divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined> {
    const { transport, members: parents, hosts, id: parentId } = this.#membership;
    this.#splits += 1;
    const id = parentId * (MAX_SPLITS + 1) + this.#splits;
    if (this.#splits > MAX_SPLITS || id >= MAX_ID) throw tooManySplitsError(this.#splits);
    const met = this.exchange({ ...member, channel: 0 }, limits);
    const part = met.then((all) => membersOf(this.rank, all)?.map((rank) => parents[rank]!));
    await this.#settings.native?.divide(parentId, id, part);
    const members = await part;
    if (members === undefined) return undefined;
    const choice = this.#choice.for(ranksByHost(members.map((rank) => hosts[rank] ?? 0)));
    return new TransportGroup({ transport, members, hosts, id }, this.#settings, choice);
  }

  /** Fails a call, and with it the group, because its ranks no longer agree on which call comes next. */
  #fail<Call extends GroupCall | Transfer, State>(
    queue: CallQueue<Call, State>,
    issued: IssuedCall<Call, State>,
    error: unknown,
  ): void {
    const { transport, id } = this.#membership;
    const { label } = issued;
    const cause = queue.ended ?? abortCauseOf(error, transport.rank);
    const isMismatch = ShardwiseError.isInstance(error) && error.code === 'COLLECTIVE_MISMATCH';
    const isLoss = ShardwiseError.isInstance(error) && 'lostBetween' in error.fields;
    queue.reject(
      issued,
      isMismatch || isLoss ? error : abortedError(label, cause, { cause: error }),
    );
    this.#end(cause);
    this.#settings.native?.spoil(id);
    // Every rank learns by itself of a mismatch in a collective. The sender of a message learns of its mismatch
    // only from the transport.
    if (isLoss || (isMismatch && label.operation === 'recv')) transport.close(error);
  }

  #end(cause: AbortCause): void {
    this.#collectives.queue.end(cause);
    this.#messages.queue.end(cause);
  }
}

function tooManySplitsError(splits: number): ConfigError {
  return new ConfigError(
    {
      asked: `Split ${splits} of a group`,
      found: `a group can be split ${MAX_SPLITS} times, and its parts can be split again, to a depth of 3`,
      todo: 'Keep the groups of an earlier split',
    },
    { splits, maxSplits: MAX_SPLITS },
  );
}
