import {
  type AbortCause,
  abortCauseOf,
  type CallOptions,
  ConfigError,
  type ProcessGroup,
} from '@shardwise/core/spec';
import type { Limits } from '../call/call-options.ts';
import { CheckedGroup } from '../call/checked-group.ts';
import { membersOf } from '../call/record.ts';
import { SharedCollectives } from './shared-collectives.ts';
import { CallSlots } from './call-slots.ts';
import { CHANNELS } from './world-memory-map.ts';
import { SharedMessages } from './shared-messages.ts';
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
  readonly #slots: CallSlots;
  readonly #collectives: SharedCollectives;
  readonly #messages: SharedMessages;
  readonly #waiting: Waiting;
  readonly #abortListeners: ((cause: AbortCause) => void)[] = [];
  #isReleased = false;

  constructor(context: RankContext, slots: CallSlots) {
    super(slots.rank, slots.size, slots.members);
    this.#context = context;
    this.#slots = slots;
    const owner = {
      poke: () => context.progress.poke(),
      // A rank that fails ends the world and then leaves, and this rank may see both at once.
      end: (cause: AbortCause) => this.#end(slots.control.abortCause() ?? cause),
      abort: (reason: unknown) => this.#abort(reason),
    };
    this.#collectives = new SharedCollectives(slots, context.memory, owner);
    this.#messages = new SharedMessages(slots, context.memory, owner);
    const collectives = this.#collectives.queue;
    const messages = this.#messages.queue;
    this.#waiting = {
      advance: () => {
        const moved = this.#collectives.advance();
        return this.#messages.advance() || moved;
      },
      isPending: () => collectives.oldest !== undefined || messages.oldest !== undefined,
      deadline: () => Math.min(collectives.deadline(), messages.deadline()),
      expire: (now) => {
        collectives.expire(now);
        messages.expire(now);
      },
      fail: (cause) => {
        this.#collectives.rejectDisagreement();
        this.#end(cause);
        for (const listener of this.#abortListeners.splice(0)) listener(cause);
      },
    };
    context.progress.add(this.#waiting);
  }

  /**
   * Moves pending calls of this rank without waiting. A thread that computes between turns of its event loop
   * calls it. Issuing a call also moves pending calls.
   */
  progress(): void {
    this.#context.progress.advance();
  }

  /** Calls `listener` once with the cause when the world is ended. A rank that leaves does not end the world. */
  onAbort(listener: (cause: AbortCause) => void): void {
    this.#abortListeners.push(listener);
  }

  /**
   * Sends one message without the checks and counts of `send`. The tag is below 2^53. If the receiver expects
   * another length, both calls reject with CollectiveMismatchError and the group can still be used.
   */
  sendBytes(to: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    return this.#messages.queue.issue(
      { operation: 'send', buffer: { bytes, dtype: 'u8' }, peer: to, tag, failsAlone: true },
      unlimited(options),
    );
  }

  /** Receives a message of `sendBytes`. */
  recvBytes(from: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    return this.#messages.queue.issue(
      { operation: 'recv', buffer: { bytes, dtype: 'u8' }, peer: from, tag, failsAlone: true },
      unlimited(options),
    );
  }

  /**
   * Closes this rank's group. With a reason it ends the whole world, because groups that share ranks with a
   * failed group fail as well.
   */
  override close(reason?: Error): void {
    if (reason !== undefined) {
      this.#abort(reason);
      return;
    }
    this.#end({ rank: this.#context.worldRank, reason: 'it closed the group' });
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#slots.setClosed();
    this.#slots.control.releaseChannel(this.#slots.channel);
    this.#context.progress.remove(this.#waiting);
  }

  protected override get collectives(): SharedCollectives['queue'] {
    return this.#collectives.queue;
  }

  protected override get transfers(): SharedMessages['queue'] {
    return this.#messages.queue;
  }

  protected override async divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined> {
    const { control, members: parents } = this.#slots;
    // One channel serves all groups of a split, because they have no rank in common.
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
    const slots = new CallSlots(control, channel, members, ranks.indexOf(this.rank));
    return new SharedMemoryGroup(this.#context, slots);
  }

  #abort(reason: unknown): void {
    const cause = abortCauseOf(reason, this.#context.worldRank);
    this.#slots.control.abort(cause);
    this.#context.progress.advance();
  }

  #end(cause: AbortCause): void {
    this.#collectives.queue.end(cause);
    this.#messages.queue.end(cause);
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
