import type { RequestClient } from '@shardwise/core/extend';
import { type ServerAnswer, withHead } from './server-message.ts';
import type { PullRequest, PushRequest, ServerRequest } from './server-request.ts';
import { refusal } from './refusal.ts';
import { ShardCounts, type ShardStatistics } from './shard-statistics.ts';
import type { PushOutcome, Shard } from './shard.ts';

export interface ShardHostOptions {
  /** How long a worker may be without a connection before it counts as lost. */
  readonly leaseMs: number;
}

/** Answers the requests for one range: changes one after the other, and has those wait who are ahead of others. */
export class ShardHost {
  readonly shard: Shard;
  readonly #leaseMs: number;
  #queue: Promise<unknown> = Promise.resolve();
  #changed = Promise.withResolvers<void>();
  /** Open connections of each worker. */
  readonly #connections = new Map<number, Set<number>>();
  readonly #timers = new Map<number, NodeJS.Timeout>();
  /** Workers of a synchronous job that are gone without a word. */
  readonly #lost = new Set<number>();

  constructor(shard: Shard, { leaseMs }: ShardHostOptions) {
    this.shard = shard;
    this.#leaseMs = leaseMs;
  }

  get statistics(): ShardStatistics {
    return this.shard.counts.statistics(this.shard.clock);
  }

  /** Does something when all changes before it are done. */
  inOrder<T>(body: () => T | Promise<T>): Promise<T> {
    const result = this.#queue.then(body);
    this.#queue = result.catch(() => undefined);
    return result;
  }

  async answer(
    request: ServerRequest,
    arrays: readonly Uint8Array[],
    client: RequestClient,
  ): Promise<readonly Uint8Array[]> {
    this.#see(request.worker, client);
    switch (request.kind) {
      case 'join': {
        const joined = await this.change(request, arrays);
        return withHead({ ...Object(joined), round: this.shard.round });
      }
      case 'initialise':
        await this.change(request, arrays);
        return withHead({});
      case 'push':
        return this.#answerPush(request, arrays, client);
      case 'pull':
        return this.#answerPull(request, client);
      case 'leave':
        await this.change(request, arrays);
        return withHead({});
      default:
        return request satisfies never;
    }
  }

  /** Makes a change in its turn; who waits looks whether to go on. */
  async change(request: ServerRequest, arrays: readonly Uint8Array[]): Promise<unknown> {
    try {
      return await this.inOrder(() => this.apply(request, arrays));
    } finally {
      this.#wake();
    }
  }

  protected async apply(request: ServerRequest, arrays: readonly Uint8Array[]): Promise<unknown> {
    const { shard } = this;
    switch (request.kind) {
      case 'join':
        this.#lost.delete(request.worker);
        return shard.join(request);
      case 'initialise':
        shard.check(request);
        return shard.initialise(request, arrays);
      case 'push':
        return shard.push(request, arrays);
      case 'leave':
        shard.check(request);
        return this.#remove(request.worker);
      case 'pull':
        return undefined;
      default:
        return request satisfies never;
    }
  }

  /** Ends the watch over workers. */
  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  async #answerPush(
    request: PushRequest,
    arrays: readonly Uint8Array[],
    client: RequestClient,
  ): Promise<readonly Uint8Array[]> {
    const outcome = (await this.change(request, arrays)) as PushOutcome;
    return this.#answerWhen(request, client, outcome, () => !this.#mustWait(request.worker));
  }

  #answerPull(request: PullRequest, client: RequestClient): Promise<readonly Uint8Array[]> {
    const outcome = { staleness: 0, isLate: false };
    return this.#answerWhen(request, client, outcome, () => this.shard.isInitialised);
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
    const gone = closing(client.closed);
    for (;;) {
      // A later start of the worker is answered instead.
      shard.check(request);
      if (isReady()) break;
      this.#requireWorkers();
      await Promise.race([this.#changed.promise, gone]);
      client.closed.throwIfAborted();
    }
    const waitedMs = performance.now() - begin;
    ShardCounts.add(shard.counts.waitedMs, worker, waitedMs);
    return this.inOrder(async () => {
      const values = await shard.read(worker);
      const answer: ServerAnswer = {
        round: shard.round,
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
        if (staleness === null) return false;
        return shard.lead(worker) > staleness;
      }
      case 'elastic':
        return false;
      default:
        return consistency satisfies never;
    }
  }

  /** Throws RefusedError where a synchronous step waits for a worker that is gone. */
  #requireWorkers(): void {
    const { consistency, workers } = this.shard.job;
    if (consistency.kind !== 'synchronous') return;
    if (this.#lost.size <= consistency.backupWorkers) return;
    const lost = [...this.#lost].join(', ');
    throw refusal(
      'worker-lost',
      `a synchronous step of ${workers} workers`,
      `worker ${lost} is gone: nothing was heard of it for ${this.#leaseMs} ms`,
      'Look for why it ended, or use a consistency that does not wait for all',
    );
  }

  #see(worker: number, client: RequestClient): void {
    clearTimeout(this.#timers.get(worker));
    this.#timers.delete(worker);
    const open = this.#connections.get(worker) ?? new Set();
    this.#connections.set(worker, open);
    if (open.has(client.number)) return;
    open.add(client.number);
    const gone = (): void => {
      open.delete(client.number);
      if (open.size === 0) this.#watch(worker);
    };
    client.closed.addEventListener('abort', gone, { once: true });
  }

  #watch(worker: number): void {
    const timer = setTimeout(() => void this.#lose(worker), this.#leaseMs);
    this.#timers.set(worker, timer);
    timer.unref();
  }

  async #lose(worker: number): Promise<void> {
    if (!this.shard.isMember(worker)) return;
    if (this.shard.job.consistency.kind === 'synchronous') this.#lost.add(worker);
    else await this.inOrder(() => this.#remove(worker));
    this.#wake();
  }

  async #remove(worker: number): Promise<void> {
    clearTimeout(this.#timers.get(worker));
    this.#timers.delete(worker);
    await this.shard.leave({ worker });
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

function closing(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
