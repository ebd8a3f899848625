import type { AbortCause } from '../call/failure.ts';
import type { MpiJob, World } from './mpi-job.ts';
import type { GroupNotice } from './notice.ts';
import { RankOrderReducer } from './rank-order-reducer.ts';

/** A group as its world sees it. */
export interface WorldGroup {
  readonly id: string;
  receive(fromWorldRank: number, notice: GroupNotice): void;
  end(cause: AbortCause): void;
  close(): void;
}

/** Notices that come before their group is made here, or after it was closed, are kept so many. */
const MAX_EARLY = 4096;

export class MpiWorld implements World {
  readonly id: number;
  readonly job: MpiJob;
  readonly reducer: RankOrderReducer;
  ended: AbortCause | undefined;
  readonly #groups = new Map<string, WorldGroup>();
  #early: { readonly from: number; readonly notice: GroupNotice }[] = [];

  constructor(job: MpiJob, id: number) {
    this.job = job;
    this.id = id;
    this.reducer = new RankOrderReducer(job.calls);
  }

  add(group: WorldGroup): void {
    this.#groups.set(group.id, group);
    const early = this.#early.filter(({ notice }) => notice.group === group.id);
    this.#early = this.#early.filter(({ notice }) => notice.group !== group.id);
    for (const { from, notice } of early) group.receive(from, notice);
  }

  remove(group: WorldGroup): void {
    this.#groups.delete(group.id);
    if (this.#groups.size === 0) this.job.close(this);
  }

  receive(from: number, notice: GroupNotice): void {
    const group = this.#groups.get(notice.group);
    if (group !== undefined) {
      group.receive(from, notice);
      return;
    }
    this.#early.push({ from, notice });
    if (this.#early.length > MAX_EARLY) this.#early.shift();
  }

  fail(cause: AbortCause): void {
    this.ended ??= cause;
    for (const group of this.#groups.values()) group.end(cause);
  }

  leave(): void {
    for (const group of this.#groups.values()) group.close();
  }
}
