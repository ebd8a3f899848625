import type { CollectiveError, Transport } from '@shardwise/core/spec';
import { MAX_TAG } from '../call/checks.ts';
import { causeOf, peerClosedError, type AbortCause } from '../call/failure.ts';
import { TAGS_PER_GROUP } from '../group/group-end.ts';
import type { NativeCollectives, NativeGroups } from '../group/native-groups.ts';
import { abortedByError } from '../transports/peer-errors.ts';
import { MpiCommunicator } from './mpi-communicator.ts';
import type { Handle } from './mpi-abi.ts';
import type { MpiJob, World } from './mpi-job.ts';
import type { Left } from './notice-board.ts';

/**
 * All processes of a job, with a communicator for each group: MPI has not as many tags as groups need, and its
 * collectives belong to communicators.
 */
export class MpiTransport implements Transport, NativeGroups, World {
  readonly id: number;
  readonly rank: number;
  readonly size: number;
  readonly #job: MpiJob;
  readonly #communicators = new Map<number, MpiCommunicator>();
  /** Those of groups that this rank has left, and others have not. */
  readonly #closing = new Map<number, MpiCommunicator>();
  /** Who has left which group, and when this was heard. */
  readonly #left: (Left & { readonly from: number; readonly heardAt: number })[] = [];
  #ended: CollectiveError | undefined;

  /** `id` is that of the world among those of the job. */
  constructor(job: MpiJob, id: number, handle: Handle) {
    this.#job = job;
    this.id = id;
    this.rank = job.rank;
    this.size = job.size;
    this.#add(
      0,
      handle,
      Array.from({ length: job.size }, (_, rank) => rank),
    );
  }

  send(to: number, tag: number, bytes: Uint8Array): Promise<void> {
    const communicator = this.#of(tag);
    if (communicator instanceof Error) return Promise.reject(communicator);
    return communicator.send(to, shortTag(tag), bytes);
  }

  recv(from: number, tag: number, bytes: Uint8Array): Promise<void> {
    const communicator = this.#of(tag);
    if (communicator instanceof Error) return Promise.reject(communicator);
    return communicator.receive(from, shortTag(tag), bytes);
  }

  /**
   * With a reason, ends the whole job: groups that share ranks with a failed one fail with it, and
   * MPI can't go on without a rank.
   */
  close(reason?: Error): void {
    if (reason === undefined) this.leave(0);
    else this.#job.abort(this, causeOf(reason, this.rank));
  }

  async divide(
    parent: number,
    id: number,
    ranks: Promise<readonly number[] | undefined>,
  ): Promise<void> {
    await this.#job.inTurn(ranks, (members) => {
      const communicator = this.#of(parent * TAGS_PER_GROUP);
      if (communicator instanceof Error) throw communicator;
      const { calls } = this.#job;
      const color = members === undefined ? undefined : Math.min(...members);
      const handle = calls.split(communicator.handle, color, members?.indexOf(this.rank) ?? 0);
      if (members !== undefined && handle !== undefined) this.#add(id, handle, members);
    });
  }

  spoil(id: number): void {
    this.#communicators.get(id)?.spoil();
  }

  leave(id: number): void {
    const communicator = this.#communicators.get(id);
    if (communicator === undefined) return;
    this.#communicators.delete(id);
    if (this.#ended === undefined) this.#job.tell({ kind: 'left', world: this.id, group: id });
    const left = communicator.abandon(peerClosedError(this.rank, undefined));
    if (left.length > 0) this.#job.spoil();
    // Its other ranks can't end it without this one.
    if (left.includes('collective')) this.close(new Error('it closed the group inside a call'));
    if (this.#ended === undefined) this.#closing.set(id, communicator);
    this.#release(id);
  }

  collectives(id: number): NativeCollectives {
    const communicator = this.#communicators.get(id);
    if (communicator !== undefined) return communicator;
    throw new RangeError(`There is no group ${id}`);
  }

  hear(from: number, left: Left): void {
    this.#left.push({ ...left, from, heardAt: performance.now() });
    this.#release(left.group);
  }

  look(now: number): void {
    for (const { from, group, heardAt } of this.#left) {
      this.#communicators.get(group)?.failAbsent(from, heardAt, now);
    }
  }

  fail(cause: AbortCause): void {
    if (this.#ended !== undefined) return;
    this.#ended = abortedByError(cause);
    for (const communicator of this.#communicators.values()) {
      communicator.spoil();
      if (communicator.abandon(this.#ended).length > 0) this.#job.spoil();
    }
    this.#closing.clear();
  }

  leaveAll(): void {
    for (const id of this.#communicators.keys()) this.leave(id);
  }

  /** Frees the communicator of a group that all ranks have left: until then they may send this one messages. */
  #release(id: number): void {
    const communicator = this.#closing.get(id);
    const gone = this.#left.flatMap(({ group, from }) => (group === id ? [from] : []));
    if (communicator?.hasNoOthersThan(gone) === true) {
      communicator.free();
      this.#closing.delete(id);
    }
    if (this.#communicators.size === 0 && this.#closing.size === 0) this.#job.close(this);
  }

  #add(id: number, handle: Handle, members: readonly number[]): void {
    const { calls, requests } = this.#job;
    this.#communicators.set(id, new MpiCommunicator(calls, requests, handle, members));
  }

  /** That of the group whose tag this is, or why there is none. */
  #of(tag: number): MpiCommunicator | Error {
    if (this.#ended !== undefined) return this.#ended;
    const communicator = this.#communicators.get(Math.floor(tag / TAGS_PER_GROUP));
    return communicator ?? peerClosedError(this.rank, undefined);
  }
}

/** MPI need not have more tags than the user's and a few: these come first, then those of calls. */
function shortTag(tag: number): number {
  return (tag + MAX_TAG) % TAGS_PER_GROUP;
}
