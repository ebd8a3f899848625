import { refusal } from '../protocol/refusal.ts';
import type { PushRequest } from '../protocol/request.ts';
import type { SavedMember, ShardHead } from '../protocol/shard-head.ts';
import { VectorClock } from './vector-clock.ts';

/** What a server knows of a worker. */
export interface Member extends SavedMember {
  session: number;
  sequence: number;
  read: number;
  /** In elastic averaging, the servers' values before the worker's last exchange with them. */
  before?: readonly Uint8Array[];
  /** The values with which the worker's last push was answered and that it has not pulled yet. */
  kept?: KeptValues;
}

/** The values with which a push was answered, until its worker has pulled them. */
export class KeptValues {
  readonly #values: Map<number, Uint8Array>;

  constructor(values: readonly Uint8Array[]) {
    this.#values = new Map(values.entries());
  }

  /**
   * Takes the values at some places. A value that was taken before, because its answer was lost, is the current one.
   */
  async take(
    places: readonly number[],
    current: () => Promise<readonly Uint8Array[]>,
  ): Promise<readonly Uint8Array[]> {
    const isComplete = places.every((place) => this.#values.has(place));
    const now = isComplete ? [] : await current();
    return places.map((place) => {
      const value = this.#values.get(place) ?? now[place] ?? new Uint8Array(0);
      this.#values.delete(place);
      return value;
    });
  }
}

type MembersHead = Pick<ShardHead, 'sessions' | 'known' | 'members' | 'left' | 'clock'>;

/**
 * The workers of a range: who takes part, by which of its starts, which of its pushes have counted, and how many steps
 * it has made.
 */
export class ShardMembers {
  readonly clock: VectorClock = new VectorClock();
  readonly #members = new Map<number, Member>();
  /**
   * The number of the last push of each worker that has left, so that a push whose answer was lost does not count
   * again.
   */
  readonly #left = new Map<number, number>();
  /** The workers that have joined at least once. */
  readonly #known = new Set<number>();
  #sessions = 0;

  get workers(): readonly number[] {
    return [...this.#members.keys()];
  }

  /** The number of workers that have joined at least once. */
  get knownCount(): number {
    return this.#known.size;
  }

  /** Begins a start of a worker. `version` is that of the values which it will read. */
  join(worker: number, version: number): Member {
    const sequence = this.#members.get(worker)?.sequence ?? this.#left.get(worker) ?? 0;
    const member: Member = { session: ++this.#sessions, sequence, read: version };
    this.#known.add(worker);
    this.#members.set(worker, member);
    // A worker that joins late or again begins at the step of the slowest one, because it reads the present values.
    if (!this.clock.has(worker)) {
      const { minimum } = this.clock;
      this.clock.set(worker, Number.isFinite(minimum) ? minimum : 0);
    }
    return member;
  }

  /** Undefined for a worker that has not joined or has left. */
  get(worker: number): Member | undefined {
    return this.#members.get(worker);
  }

  /** Throws RefusedError for a worker that has not joined, and for an earlier start of it. */
  check({ worker, session }: { readonly worker: number; readonly session: number }): Member {
    const asked = `a request of worker ${worker}`;
    const member = this.#members.get(worker);
    if (member === undefined) {
      const found = 'it has not joined, or was lost';
      throw refusal('unknown-worker', { asked, found, todo: 'Join again' });
    }
    if (member.session === session) return member;
    if (session > member.session) {
      throw refusal('unknown-worker', {
        asked,
        found: `it is from start ${session}, and this server was restarted from an earlier state`,
        todo: 'Join again',
      });
    }
    throw refusal('stale', {
      asked,
      found: `it is from start ${session}, and start ${member.session} has joined since`,
      todo: 'End the earlier start of this worker',
    });
  }

  /** Whether a push of a known worker has counted before. Throws RefusedError for one that is not the next. */
  hasCounted({ worker, sequence }: PushRequest): boolean {
    const last = this.#members.get(worker)?.sequence ?? 0;
    const asked = `push ${sequence} of worker ${worker}`;
    if (sequence < last) {
      throw refusal('stale', {
        asked,
        found: `its push ${last} has arrived before`,
        todo: 'Send each push before the next one',
      });
    }
    if (sequence > last + 1) {
      throw refusal('gap', {
        asked,
        found: `the last one here is ${last}`,
        todo: 'Join again, and go on from what this server has',
      });
    }
    return sequence === last;
  }

  leave(worker: number): void {
    const member = this.#members.get(worker);
    if (member !== undefined) this.#left.set(worker, member.sequence);
    this.#members.delete(worker);
    this.clock.remove(worker);
  }

  clear(): void {
    for (const each of [this.#members, this.#left, this.#known]) each.clear();
    for (const worker of this.clock.workers) this.clock.remove(worker);
  }

  head(): MembersHead {
    return {
      sessions: this.#sessions,
      known: [...this.#known],
      members: [...this.#members].map(([worker, { session, sequence, read }]) => [
        worker,
        { session, sequence, read },
      ]),
      left: [...this.#left],
      clock: this.clock.toJSON(),
    };
  }

  restore(head: MembersHead): void {
    this.clear();
    this.#sessions = head.sessions;
    for (const worker of head.known) this.#known.add(worker);
    for (const [worker, member] of head.members) this.#members.set(worker, { ...member });
    for (const [worker, sequence] of head.left) this.#left.set(worker, sequence);
    for (const [worker, clock] of head.clock) this.clock.set(worker, clock);
  }
}
