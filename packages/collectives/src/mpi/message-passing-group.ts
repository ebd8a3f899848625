import type { ProcessGroup } from '@shardwise/core/spec';
import type { Limits } from '../call/call-options.ts';
import { CheckedGroup, type Transfer } from '../call/checked-group.ts';
import { abortedError, reasonText, type AbortCause } from '../call/failure.ts';
import type { GroupCall } from '../call/group-call.ts';
import { membersOf } from '../call/members.ts';
import type { Settlement } from '../call/settlement.ts';
import { CollectiveQueue } from './collective-queue.ts';
import type { Handle } from './mpi-abi.ts';
import { MpiWire } from './mpi-wire.ts';
import type { MpiWorld, WorldGroup } from './mpi-world.ts';
import type { GroupNotice } from './notice.ts';
import type { Waiting } from './pump.ts';
import { TransferQueue } from './transfer-queue.ts';

/** Which ranks of a world form a group. Two groups with one id have no rank in common. */
export interface Membership {
  readonly world: MpiWorld;
  readonly communicator: Handle;
  readonly id: string;
  /** By rank of the group, the rank of the world. */
  readonly members: readonly number[];
}

/** A group of ranks whose messages MPI carries, from and to the memory of the caller. */
export class MessagePassingGroup extends CheckedGroup implements WorldGroup {
  readonly id: string;
  readonly #world: MpiWorld;
  readonly #wire: MpiWire;
  readonly #collectives: CollectiveQueue;
  readonly #transfers: TransferQueue;
  readonly #waiting: Waiting;
  #ended: AbortCause | undefined;
  #isOpen = true;
  #splits = 0;

  constructor({ world, communicator, id, members }: Membership) {
    const wire = new MpiWire(world.job.calls, communicator);
    super(wire.rank, wire.size, members);
    this.id = id;
    this.#world = world;
    this.#wire = wire;
    const abort = (reason: unknown): void => this.#abort(reason);
    this.#collectives = new CollectiveQueue(wire, world.reducer, {
      abort,
      announce: (issued) =>
        world.job.tell({ kind: 'waiting', world: world.id, group: id, issued }, members),
      disagree: (error) => world.job.abort(world, this.#ownCause(error), members),
    });
    this.#transfers = new TransferQueue(wire, abort);
    this.#waiting = {
      advance: () => this.#advance(),
      isPending: () => this.#collectives.isPending() || this.#transfers.isPending(),
      isMoving: () => this.#collectives.isMoving(),
      expire: (now) => this.#expire(now),
    };
    world.job.pump.add(this.#waiting);
    world.add(this);
  }

  /**
   * With a reason, ends the whole job: groups that share ranks with a failed one fail with it, and
   * MPI can't go on without a rank.
   */
  override close(reason?: Error): void {
    if (reason !== undefined) {
      this.#abort(reason);
      return;
    }
    if (!this.#isOpen) return;
    const { world, id } = { world: this.#world, id: this.id };
    const finished = this.#collectives.finished;
    if (this.#ended === undefined) {
      world.job.tell({ kind: 'left', world: world.id, group: id, finished }, this.worldRanks);
    }
    this.end({ rank: world.job.rank, reason: 'it closed the group' });
    this.#leave();
  }

  receive(fromWorldRank: number, notice: GroupNotice): void {
    const rank = this.worldRanks.indexOf(fromWorldRank);
    if (rank < 0) return;
    if (notice.kind === 'waiting') {
      this.#collectives.arrived(rank, notice.issued);
    } else {
      this.#collectives.left(rank, notice.finished);
      this.#transfers.left(rank);
    }
  }

  /** What is pending, and what comes, rejects with the cause. */
  end(cause: AbortCause): void {
    if (this.#ended !== undefined) return;
    this.#ended = cause;
    this.#collectives.fail(cause);
    this.#transfers.fail(cause);
    const left = this.#wire.abandon();
    if (left.length > 0) this.#world.job.abandon(left);
  }

  protected override run(call: GroupCall, limits: Limits): Promise<void> {
    if (this.#ended !== undefined) {
      return this.#refuse(call.record.operation, this.#collectives.next, this.#ended);
    }
    return this.#issued(this.#collectives.issue(call, limits));
  }

  protected override transfer(transfer: Transfer, limits: Limits): Promise<void> {
    if (this.#ended !== undefined) {
      return this.#refuse(transfer.operation, this.#transfers.next, this.#ended);
    }
    return this.#issued(this.#transfers.issue(transfer, limits));
  }

  protected override divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined> {
    const id = `${this.id}/${this.#splits++}`;
    const met = this.exchange({ ...member, channel: 0 }, limits);
    return this.#world.job.inTurn(met, (all) => {
      const sequence = this.#collectives.next;
      if (this.#ended !== undefined) {
        throw abortedError({ operation: 'split', sequence, rank: this.rank }, this.#ended);
      }
      const ranks = membersOf(this.rank, all);
      const communicator = this.#wire.split(
        ranks === undefined ? undefined : Math.min(...ranks),
        ranks?.indexOf(this.rank) ?? 0,
      );
      if (ranks === undefined || communicator === undefined) return undefined;
      const members = ranks.map((rank) => this.worldRanks[rank] ?? 0);
      return new MessagePassingGroup({ world: this.#world, communicator, id, members });
    });
  }

  #issued(settlement: Settlement): Promise<void> {
    this.#world.job.pump.poke();
    return settlement.promise;
  }

  #advance(): boolean {
    try {
      const moved = this.#collectives.advance();
      return this.#transfers.advance() || moved;
    } catch (error) {
      this.#abort(error);
      return true;
    }
  }

  #expire(now: number): void {
    const absent = this.#collectives.absent() ?? this.#transfers.absent(now);
    if (absent !== undefined) {
      this.end({ rank: this.worldRanks[absent], reason: 'it closed the group' });
      return;
    }
    this.#collectives.expire(now);
    this.#transfers.expire(now);
  }

  #refuse(operation: string, sequence: number, cause: AbortCause): Promise<never> {
    return Promise.reject(abortedError({ operation, sequence, rank: this.rank }, cause));
  }

  #abort(reason: unknown): void {
    this.#world.job.abort(this.#world, this.#ownCause(reason));
  }

  #ownCause(reason: unknown): AbortCause {
    return { rank: this.#world.job.rank, reason: reasonText(reason) };
  }

  #leave(): void {
    this.#isOpen = false;
    this.#world.job.pump.remove(this.#waiting);
    this.#world.remove(this);
    this.#wire.free();
  }
}
