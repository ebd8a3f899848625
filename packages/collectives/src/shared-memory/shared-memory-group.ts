import { ConfigError, type CallOptions, type ProcessGroup } from '@shardwise/core/spec';
import type { Limits } from '../call/call-options.ts';
import { CheckedGroup, type Transfer } from '../call/checked-group.ts';
import { abortedError, causeOf, type AbortCause } from '../call/failure.ts';
import type { GroupCall } from '../call/group-call.ts';
import { membersOf } from '../call/members.ts';
import { CollectiveQueue } from './collective-queue.ts';
import { Lanes } from './lanes.ts';
import { CHANNELS } from './layout.ts';
import { MessageQueue } from './message-queue.ts';
import type { Progress, Waiting } from './progress.ts';
import type { SharedMemory } from './shared-memory.ts';

/** What the groups of one rank have in common. */
export interface RankContext {
  readonly worldRank: number;
  readonly memory: SharedMemory;
  readonly progress: Progress;
}

/** A group of ranks that read and write each other's buffers in shared memory. */
export class SharedMemoryGroup extends CheckedGroup {
  readonly #context: RankContext;
  readonly #lanes: Lanes;
  readonly #collectives: CollectiveQueue;
  readonly #messages: MessageQueue;
  readonly #waiting: Waiting;
  readonly #abortListeners: ((cause: AbortCause) => void)[] = [];
  #ended: AbortCause | undefined;
  #isReleased = false;

  constructor(context: RankContext, lanes: Lanes) {
    super(lanes.rank, lanes.size, lanes.members);
    this.#context = context;
    this.#lanes = lanes;
    const owner = {
      // A rank that fails ends the world and then leaves: both may come between two looks.
      end: (cause: AbortCause) => this.#end(lanes.control.abortCause() ?? cause),
      abort: (reason: unknown) => this.#abort(reason),
    };
    this.#collectives = new CollectiveQueue(lanes, context.memory, owner);
    this.#messages = new MessageQueue(lanes, context.memory, owner);
    this.#waiting = {
      advance: () => {
        const collectives = this.#collectives.advance();
        return this.#messages.advance() || collectives;
      },
      isPending: () => this.#collectives.isPending() || this.#messages.isPending(),
      deadline: () => Math.min(this.#collectives.deadline(), this.#messages.deadline()),
      expire: (now) => {
        this.#collectives.expire(now);
        this.#messages.expire(now);
      },
      fail: (cause) => {
        this.#end(cause);
        for (const listener of this.#abortListeners.splice(0)) listener(cause);
      },
    };
    context.progress.add(this.#waiting);
  }

  /**
   * Moves pending calls of this rank without waiting: for a thread that computes between turns of
   * its event loop. Calls also move whenever one is issued.
   */
  progress(): void {
    this.#context.progress.advance();
  }

  /** `listener` is told, once, why the world was ended; a rank that leaves does not end it. */
  onAbort(listener: (cause: AbortCause) => void): void {
    this.#abortListeners.push(listener);
  }

  /**
   * One message past the checks and counts of `send`, with a tag below 2^53. Where the receiver
   * wants another length, both reject and the group goes on.
   */
  sendBytes(to: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    const buffer = { bytes, dtype: 'u8' } as const;
    return this.#message({ operation: 'send', buffer, peer: to, tag }, unlimited(options), false);
  }

  /** The other end of `sendBytes`. */
  recvBytes(from: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    const buffer = { bytes, dtype: 'u8' } as const;
    return this.#message({ operation: 'recv', buffer, peer: from, tag }, unlimited(options), false);
  }

  /** With a reason, ends the whole world: groups that share ranks with a failed one fail with it. */
  override close(reason?: Error): void {
    if (reason !== undefined) {
      this.#abort(reason);
      return;
    }
    this.#end({ rank: this.#context.worldRank, reason: 'it closed the group' });
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#lanes.setClosed();
    this.#lanes.control.releaseChannel(this.#lanes.channel);
    this.#context.progress.remove(this.#waiting);
  }

  protected override run(call: GroupCall, limits: Limits): Promise<void> {
    if (this.#ended !== undefined) {
      const { operation } = call.record;
      return this.#refuse(operation, this.#collectives.next, this.#ended);
    }
    const settlement = this.#collectives.issue(call, limits);
    this.#context.progress.poke();
    return settlement.promise;
  }

  protected override transfer(transfer: Transfer, limits: Limits): Promise<void> {
    return this.#message(transfer, limits, true);
  }

  protected override async divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined> {
    const { control, members: parents } = this.#lanes;
    // One channel serves all groups of a split, as they have no member in common.
    const proposed = this.rank === 0 ? control.takeChannel(this.size) : 0;
    const met = await this.exchange({ ...member, channel: proposed }, limits);
    const channel = met[0]?.channel ?? -1;
    if (channel < 0) throw noChannelError();
    const ranks = membersOf(this.rank, met);
    if (ranks === undefined) {
      control.releaseChannel(channel);
      return undefined;
    }
    const members = ranks.map((rank) => parents[rank] ?? 0);
    const lanes = new Lanes(control, channel, members, ranks.indexOf(this.rank));
    return new SharedMemoryGroup(this.#context, lanes);
  }

  #message(transfer: Transfer, limits: Limits, endsGroup: boolean): Promise<void> {
    if (this.#ended !== undefined) {
      return this.#refuse(transfer.operation, this.#messages.next, this.#ended);
    }
    const settlement = this.#messages.issue(transfer, limits, endsGroup);
    this.#context.progress.poke();
    return settlement.promise;
  }

  #refuse(operation: string, sequence: number, cause: AbortCause): Promise<never> {
    return Promise.reject(abortedError({ operation, sequence, rank: this.rank }, cause));
  }

  #abort(reason: unknown): void {
    const cause = causeOf(reason, this.#context.worldRank);
    this.#lanes.control.abort(cause);
    this.#context.progress.advance();
  }

  #end(cause: AbortCause): void {
    this.#ended ??= cause;
    this.#collectives.fail(cause);
    this.#messages.fail(cause);
  }
}

function unlimited({ timeoutMs = Infinity, signal }: CallOptions = {}): Limits {
  return { timeoutMs, signal };
}

function noChannelError(): ConfigError {
  return new ConfigError(
    {
      asked: 'split of a group',
      found: `a world has room for ${CHANNELS} groups that are open at a time`,
      todo: 'Close groups that are no longer used',
    },
    { channels: CHANNELS },
  );
}
