import {
  type AbortCause,
  abortCauseOf,
  abortedByError,
  type CollectiveError,
  peerClosedError,
  type Transport,
} from '@shardwise/core/spec';
import { MAX_TAG } from '../call/checks.ts';
import { TAGS_PER_GROUP } from '../group/group-end.ts';
import type { NativeCollectives, NativeGroups } from '../group/selection/native-groups.ts';
import { MpiCommunicator } from './mpi-communicator.ts';
import type { Handle } from './mpi-abi.ts';
import type { MpiJob, MpiWorld } from './mpi-job.ts';
import type { Left } from './notice-board.ts';

/**
 * A transport between all processes of a job. Each group has an MPI communicator of its own, because MPI does not have
 * as many tags as groups need, and its collectives belong to communicators.
 */
export class MpiTransport implements Transport, NativeGroups, MpiWorld {
  readonly specificationVersion = 1;
  readonly id: number;
  readonly rank: number;
  readonly size: number;
  readonly #job: MpiJob;
  readonly #communicators = new Map<number, MpiCommunicator>();
  /** The communicators of groups that this rank has left and other ranks have not. */
  readonly #closing = new Map<number, MpiCommunicator>();
  /** Which rank has left which group, and when this rank read the notice of it. */
  readonly #left: (Left & { readonly from: number; readonly heardAt: number })[] = [];
  #ended: CollectiveError | undefined;

  /** `id` is the number of this world in the job. */
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
   * With a reason, ends the whole job. Groups that share ranks with a failed group fail with it, and MPI cannot go on
   * without a rank.
   */
  close(reason?: Error): void {
    if (reason === undefined) this.leave(0);
    else this.#job.abort(this, abortCauseOf(reason, this.rank));
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
    // The other ranks cannot finish the collective without this one.
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

  /**
   * Frees the communicator of a group when all its ranks have left it. Until then they may send this one
   * messages.
   */
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

  /** The communicator of the group to which the tag belongs, or why there is none. */
  #of(tag: number): MpiCommunicator | Error {
    if (this.#ended !== undefined) return this.#ended;
    const communicator = this.#communicators.get(Math.floor(tag / TAGS_PER_GROUP));
    return communicator ?? peerClosedError(this.rank, undefined);
  }
}

/**
 * The tag within a communicator. The user's tags come first, so that MPI only needs as many tags as these and a few for
 * calls.
 */
function shortTag(tag: number): number {
  return (tag + MAX_TAG) % TAGS_PER_GROUP;
}
