import type { RequestClient } from '@shardwise/core/extend';
import { EarlyGradients } from './early-gradients.ts';
import { isRefused, refusal } from '../protocol/refusal.ts';
import { type ServerAnswer, withHead } from '../protocol/message.ts';
import type {
  AdoptRequest,
  PullRequest,
  PushRequest,
  ReplicateRequest,
  ServerRequest,
  ShardRequest,
} from '../protocol/request.ts';
import type { ShardReplica } from './shard-replica.ts';
import { ShardCounts, type ShardStatistics } from './shard-statistics.ts';
import type { SnapshotKeeper } from './snapshot-keeper.ts';
import type { PushOutcome, Shard } from './shard.ts';
import { WorkerPresence } from './worker-presence.ts';

/** What a server does for a range: it answers workers (`primary`), it has a copy (`backup`), or it has no state yet. */
export type ShardRole = 'primary' | 'backup' | 'empty';

export interface ShardHostOptions {
  readonly role: ShardRole;
  /** The milliseconds that a worker may be without a connection before it counts as lost. */
  readonly leaseMs: number;
  /** The milliseconds that a worker waits for others before it is told that they are late. */
  readonly waitMs: number;
  /** The copy on another server. Default: none. */
  readonly replica?: ShardReplica | undefined;
  /** Where snapshots are written. Default: none are written. */
  readonly snapshots?: SnapshotKeeper | undefined;
}

/**
 * Answers the requests for one range. It makes one change after the other, and lets workers wait that are ahead of
 * others.
 */
export class ShardHost {
  readonly shard: Shard;
  readonly #options: ShardHostOptions;
  readonly #presence: WorkerPresence;
  readonly #early = new EarlyGradients();
  #role: ShardRole;
  #term = 0;
  #queue: Promise<unknown> = Promise.resolve();
  #changed = Promise.withResolvers<void>();

  constructor(shard: Shard, options: ShardHostOptions) {
    this.shard = shard;
    this.#options = options;
    this.#role = options.role;
    this.#presence = new WorkerPresence(options.leaseMs, (worker) => this.#lose(worker));
  }

  get role(): ShardRole {
    return this.#role;
  }

  get statistics(): ShardStatistics {
    const isReplicated = this.#options.replica?.isAttached ?? false;
    return { ...this.shard.counts.statistics(this.shard.clock), isReplicated };
  }

  async answer(
    request: ShardRequest,
    arrays: readonly Uint8Array[],
    client: RequestClient,
  ): Promise<readonly Uint8Array[]> {
    switch (request.kind) {
      case 'replicate':
        await this.#copy(request, arrays);
        return withHead({});
      case 'adopt':
        await this.#adopt(request, arrays);
        return withHead({});
      case 'promote':
        await this.#promote();
        return withHead({});
      case 'part':
        this.#requirePrimary();
        this.#presence.see(request.worker, client);
        this.shard.checkPart(request, arrays);
        await this.#early.keep(request, arrays, client);
        return withHead({});
      case 'push':
      case 'pull':
      case 'join':
      case 'initialise':
      case 'leave':
        this.#requirePrimary();
        this.#presence.see(request.worker, client);
        return this.#answerWorker(request, arrays, client);
      default:
        return request satisfies never;
    }
  }

  /** Stops watching workers, and writes what no snapshot has yet. */
  async close(): Promise<void> {
    this.#presence.close();
    this.#early.close();
    this.#options.replica?.detach();
    await this.#queue;
    if (this.#role === 'primary') await this.#options.snapshots?.finish(this.shard);
  }

  /**
   * Begins with a snapshot, if there is one. With `isOfEarlierRun`, the workers in the snapshot are forgotten, because
   * this run has others.
   */
  async restore(isOfEarlierRun: boolean): Promise<void> {
    const { snapshots } = this.#options;
    if ((await snapshots?.restore(this.shard)) !== true) return;
    this.#role = 'primary';
    if (!isOfEarlierRun) return;
    this.shard.forgetWorkers();
    await snapshots?.writeNow(this.shard);
  }

  async #answerWorker(
    request: ServerRequest,
    arrays: readonly Uint8Array[],
    client: RequestClient,
  ): Promise<readonly Uint8Array[]> {
    switch (request.kind) {
      case 'join': {
        this.#early.drop(request.worker);
        const joined = await this.#change(request, arrays);
        return withHead({ ...Object(joined), step: this.shard.step });
      }
      case 'leave':
        this.#early.drop(request.worker);
        await this.#change(request, arrays);
        return withHead({});
      case 'initialise':
        await this.#change(request, arrays);
        return withHead({});
      case 'push': {
        const whole = this.#early.completed(request, arrays);
        try {
          const outcome = (await this.#change(whole.request, whole.arrays)) as PushOutcome;
          const isReady = (): boolean => !this.#mustWait(request.worker);
          return await this.#answerWhen(request, client, outcome, isReady);
        } finally {
          this.#early.drop(request.worker);
        }
      }
      case 'pull': {
        const outcome = { staleness: 0, isLate: false };
        return this.#answerWhen(request, client, outcome, () => this.shard.isInitialised);
      }
      default:
        return request satisfies never;
    }
  }

  /**
   * Makes a change in its turn, here and on the copy. Then wakes the requests that wait, so that they check whether
   * they can go on.
   */
  async #change(request: ServerRequest, arrays: readonly Uint8Array[]): Promise<unknown> {
    const { replica, snapshots } = this.#options;
    try {
      return await this.#inOrder(async () => {
        this.#requirePrimary();
        try {
          const copied = replica?.forward(request, arrays, this.#term);
          const [, done] = await Promise.allSettled([copied, this.#apply(request, arrays)]);
          await copied;
          if (this.shard.isInitialised) {
            await replica?.attach(this.shard, this.#term);
            await snapshots?.note(this.shard);
          }
          if (done.status === 'rejected') throw done.reason;
          return done.value;
        } catch (error) {
          // The copy has taken over the range, or has started again without state.
          if (isRefused(error, 'not-primary')) this.#role = 'empty';
          throw error;
        }
      });
    } finally {
      this.#wake();
    }
  }

  async #apply(request: ServerRequest, arrays: readonly Uint8Array[]): Promise<unknown> {
    const { shard } = this;
    switch (request.kind) {
      case 'join':
        return shard.join(request);
      case 'initialise':
        shard.check(request);
        return shard.initialise(request, arrays);
      case 'push':
        return shard.push(request, arrays);
      case 'leave':
        shard.check(request);
        return shard.leave(request);
      case 'pull':
        return undefined;
      default:
        return request satisfies never;
    }
  }

  #copy({ term, request }: ReplicateRequest, arrays: readonly Uint8Array[]): Promise<unknown> {
    return this.#inOrder(() => {
      if (this.#role !== 'backup' || term !== this.#term) throw this.#notPrimary();
      return this.#apply(request, arrays);
    });
  }

  #adopt({ term, head }: AdoptRequest, arrays: readonly Uint8Array[]): Promise<void> {
    return this.#inOrder(async () => {
      if (this.#role === 'primary' || term < this.#term) throw this.#notPrimary();
      await this.shard.restore(head, arrays);
      this.#term = term;
      this.#role = 'backup';
    });
  }

  #promote(): Promise<void> {
    return this.#inOrder(() => {
      if (this.#role === 'primary') return;
      this.#requireState();
      this.#term++;
      this.#role = 'primary';
      for (const worker of this.shard.workers) this.#presence.expect(worker);
    });
  }

  async #answerWhen(
    request: PushRequest | PullRequest,
    client: RequestClient,
    outcome: PushOutcome,
    isReady: () => boolean,
  ): Promise<readonly Uint8Array[]> {
    const { worker } = request;
    const { shard } = this;
    const begin = performance.now();
    for (;;) {
      this.#requirePrimary();
      // Throws if the worker has started again. Only its later start gets answers.
      shard.check(request);
      if (isReady()) break;
      this.#requireWorkers();
      const leftMs = begin + this.#options.waitMs - performance.now();
      if (leftMs <= 0) throw this.#lateError(worker);
      await nextTurn(this.#changed.promise, client.closed, leftMs);
      client.closed.throwIfAborted();
    }
    const waitedMs = performance.now() - begin;
    ShardCounts.add(shard.counts.waitedMs, worker, waitedMs);
    return this.#inOrder(async () => {
      const values = request.kind === 'pull' ? await shard.pull(request) : [];
      if (request.kind === 'push') await shard.keepFor(worker);
      const answer: ServerAnswer = {
        step: shard.step,
        version: shard.version,
        lead: shard.lead(worker),
        ...outcome,
        waitedMs,
      };
      return withHead(answer, values);
    });
  }

  #mustWait(worker: number): boolean {
    const { shard } = this;
    const { consistency } = shard.job;
    switch (consistency.kind) {
      case 'synchronous':
        return shard.isWaiting(worker);
      case 'bounded': {
        const { staleness } = consistency;
        return staleness !== null && shard.lead(worker) > staleness;
      }
      case 'elastic':
        return false;
      default:
        return consistency satisfies never;
    }
  }

  /** Throws RefusedError if a synchronous step waits for a worker that is lost. */
  #requireWorkers(): void {
    const { consistency, workers } = this.shard.job;
    if (consistency.kind !== 'synchronous') return;
    const lost = this.#presence.lost;
    if (lost.length <= consistency.backupWorkers) return;
    throw refusal('worker-lost', {
      asked: `a synchronous step of ${workers} workers`,
      found: `worker ${lost.join(', ')} is gone: nothing was heard of it for ${this.#options.leaseMs} ms`,
      todo: 'Look for why it ended, or use a consistency that does not wait for all',
    });
  }

  #lateError(worker: number): Error {
    const { shard } = this;
    const missing = shard.job.workers - shard.workers.length;
    const slowest = shard.isInitialised ? `worker ${shard.slowest.join(', ')}` : 'worker 0';
    return refusal('worker-late', {
      asked: `a step of worker ${worker}`,
      found: `it has waited ${this.#options.waitMs} ms for ${slowest}${missing > 0 ? `, and ${missing} that are not there` : ''}`,
      todo: 'Look at what that worker does, give more time, or use a consistency that does not wait',
    });
  }

  #requirePrimary(): void {
    this.#requireState();
    if (this.#role !== 'primary') throw this.#notPrimary();
  }

  #requireState(): void {
    if (this.#role !== 'empty') return;
    throw refusal('no-state', {
      asked: 'a request for a range of parameters',
      found: 'this server was restarted and has no data of this range',
      todo: 'Ask the server that has the copy',
    });
  }

  #notPrimary(): Error {
    return refusal('not-primary', {
      asked: 'a request for a range of parameters',
      found: 'another server answers for it now',
      todo: 'Ask that one',
    });
  }

  async #lose(worker: number): Promise<void> {
    const session = this.shard.sessionOf(worker);
    if (this.#role !== 'primary' || session === undefined) return;
    // A lost worker stays a member of a synchronous job. Otherwise a step would silently have fewer workers.
    if (this.shard.job.consistency.kind !== 'synchronous') {
      const leave = { kind: 'leave', shard: 0, worker, session } as const;
      await this.#change(leave, []).catch(() => undefined);
    }
    this.#wake();
  }

  /** Runs `body` when everything that was begun before it is done. */
  #inOrder<T>(body: () => T | Promise<T>): Promise<T> {
    const result = this.#queue.then(body);
    this.#queue = result.catch(() => undefined);
    return result;
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

/** Settles with the next change, when the connection closes, or when the time is over. */
async function nextTurn(changed: Promise<void>, closed: AbortSignal, ms: number): Promise<void> {
  const over = Promise.withResolvers<void>();
  const end = (): void => over.resolve();
  // A timer with a longer time would fire at once.
  const timer = setTimeout(end, Math.min(ms, 2 ** 31 - 1));
  closed.addEventListener('abort', end, { once: true });
  try {
    await Promise.race([changed, over.promise]);
  } finally {
    clearTimeout(timer);
    closed.removeEventListener('abort', end);
  }
}
