import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectStore } from '@shardwise/collectives/node';
import type { Store } from '@shardwise/core';
import { afterEach, describe, expect, it } from 'vitest';
import { openStore } from '../src/rendezvous/open-store.ts';
import type { NextGeneration } from '../src/rendezvous/rendezvous.ts';
import { decodeEnd, decodeState } from '../src/rendezvous/rendezvous-state.ts';
import { worldSizeOf, type Generation } from '../src/rendezvous/generation.ts';
import { SharedState } from '../src/rendezvous/shared-state.ts';
import { StoreRendezvous } from '../src/rendezvous/store-rendezvous.ts';

interface JobOptions {
  readonly minNodes?: number;
  readonly maxNodes?: number;
  readonly maxRestarts?: number;
  readonly minRanks?: number;
  readonly lastCallMs?: number;
  readonly joinTimeoutMs?: number;
  readonly checkpoints?: readonly string[];
}

/** A link to the store that can be cut. Requests made while it is cut go through when it is mended. */
class Link {
  #whole: Promise<void> = Promise.resolve();
  #mend: () => void = () => undefined;

  cut(): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whole = promise;
    this.#mend = resolve;
  }

  mend(): void {
    this.#mend();
  }

  to(store: Store): Store {
    const later = async <T>(call: () => Promise<T>): Promise<T> => {
      await this.#whole;
      const answer = await call();
      await this.#whole;
      return answer;
    };
    return {
      set: (...call) => later(() => store.set(...call)),
      get: (...call) => later(() => store.get(...call)),
      add: (...call) => later(() => store.add(...call)),
      compareSet: (...call) => later(() => store.compareSet(...call)),
      wait: (...call) => later(() => store.wait(...call)),
      delete: (...call) => later(() => store.delete(...call)),
      close: () => store.close(),
    };
  }
}

interface HostOptions {
  readonly place?: number;
  readonly ranks?: number;
  readonly link?: Link;
}

/** Hosts of one job, all in this process. Each has its own connection to the store. */
class Job {
  readonly notices: string[] = [];
  #port = 0;
  readonly #options: JobOptions;
  readonly #open = new Set<StoreRendezvous>();
  #checkpoints = 0;

  constructor(options: JobOptions) {
    this.#options = options;
  }

  /** Adds a host. The first one is the leader. */
  async host(name: string, { place, ranks = 1, link = new Link() }: HostOptions = {}) {
    const { minNodes = 2, maxNodes = minNodes, maxRestarts = 0, checkpoints = [] } = this.#options;
    const { lastCallMs = 150, joinTimeoutMs = 10_000, minRanks } = this.#options;
    const opened = await openStore({
      host: '127.0.0.1',
      port: this.#port,
      secret: 'secret',
      jobId: 'job',
      place: this.#port === 0 ? 0 : 1,
      timeoutMs: 10_000,
    });
    this.#port = opened.port;
    const rendezvous = new StoreRendezvous({
      opened: { ...opened, store: link.to(opened.store) },
      secret: 'secret',
      own: { id: randomUUID(), name, address: name, ranks, place },
      runDirectory: '/runs/job',
      minNodes,
      maxNodes,
      maxRestarts,
      minRanks,
      times: { lastCallMs, joinTimeoutMs, heartbeatMs: 20, heartbeatLimitMs: 400 },
      findResume: async () => {
        const directory = checkpoints[this.#checkpoints++];
        return directory === 'damaged' ? { kind: 'nowhere' } : { kind: 'from', directory };
      },
      onNotice: (text) => this.notices.push(text),
    });
    await rendezvous.open();
    this.#open.add(rendezvous);
    return rendezvous;
  }

  /** Has the end of a generation say what no host says. */
  async spoilEnd(epoch: number): Promise<void> {
    const store = await connectStore({ host: '127.0.0.1', port: this.#port, secret: 'secret' });
    await store.set(`end/${epoch}`, new TextEncoder().encode('nothing'));
    store.close();
  }

  /** Has a host leave, which is the latest one if none is named. */
  async leave(host: StoreRendezvous | undefined = [...this.#open].at(-1)): Promise<void> {
    if (host === undefined) return;
    this.#open.delete(host);
    await host.close();
  }

  /** Has a host lose its place, as if it had given no sign of life. */
  async loseSeats(id: string | undefined): Promise<void> {
    const store = await connectStore({ host: '127.0.0.1', port: this.#port, secret: 'secret' });
    await new SharedState(store).update((state) => ({
      ...state,
      nodes: state.nodes.map((seat) => (seat.id === id ? { ...seat, isLost: true } : seat)),
    }));
    store.close();
  }

  async end(): Promise<void> {
    for (const rendezvous of [...this.#open].toReversed()) await rendezvous.close();
  }
}

let job: Job | undefined;
afterEach(async () => job?.end());

function start(options: JobOptions = {}): Job {
  job = new Job(options);
  return job;
}

const never = new AbortController().signal;

function generationOf(next: NextGeneration | undefined): Generation {
  if (next?.kind === 'generation') return next.generation;
  throw new Error(`no generation: ${JSON.stringify(next)}`);
}

async function gather(hosts: readonly StoreRendezvous[]): Promise<readonly Generation[]> {
  return (await Promise.all(hosts.map((host) => host.next(never)))).map(generationOf);
}

const names = ({ nodes }: Generation): readonly string[] => nodes.map(({ name }) => name);
const failed = (rank: number) =>
  ({ kind: 'failed', failure: { rank, node: 'node 1 (b)', reason: 'it broke' } }) as const;

describe('hosts that meet', () => {
  it('begin as soon as all have come, in one order, the leader first', async () => {
    const hosts = start({ minNodes: 3, checkpoints: ['/runs/old'] });
    const leader = await hosts.host('a', { ranks: 2 });
    const last = await hosts.host('c', { place: 2, ranks: 3 });
    const middle = await hosts.host('b', { place: 1 });
    const generations = await gather([last, leader, middle]);
    for (const generation of generations) {
      expect(names(generation)).toEqual(['a', 'b', 'c']);
      expect(worldSizeOf(generation)).toBe(6);
      expect(generation).toMatchObject({ epoch: 0, restarts: 0, resumeDirectory: '/runs/old' });
    }
    expect(generations.map(({ nodeRank }) => nodeRank)).toEqual([2, 0, 1]);
  });

  it('begin with the least number where no more come in the last call', async () => {
    const hosts = start({ minNodes: 1, maxNodes: 3, lastCallMs: 50 });
    const leader = await hosts.host('a');
    const other = await hosts.host('b');
    const [generation] = await gather([leader, other]);
    expect(names(generation ?? generationOf(undefined))).toEqual(['a', 'b']);
  });

  it('give up where too few come in time, with their number', async () => {
    const hosts = start({ minNodes: 2, joinTimeoutMs: 100 });
    const leader = await hosts.host('a');
    expect(await leader.next(never)).toMatchObject({
      kind: 'over',
      end: { kind: 'failed', failure: { reason: 'only 1 of 2 hosts came within 100 ms' } },
    });
  });

  it('are not waited for by one whose user has had enough', async () => {
    const hosts = start({ minNodes: 2 });
    const leader = await hosts.host('a');
    const controller = new AbortController();
    const waiting = leader.next(controller.signal);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });
});

describe('a generation', () => {
  it('is finished when the ranks of all hosts are', async () => {
    const hosts = start();
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [first, second] = await gather([a, b]);
    if (first === undefined || second === undefined) throw new Error('no generation');
    const ends = [a.ended(first), b.ended(second)];
    await a.finish(first);
    expect(await Promise.race([...ends, sleep(200, 'not yet')])).toBe('not yet');
    await b.finish(second);
    expect(await Promise.all(ends)).toEqual([{ kind: 'finished' }, { kind: 'finished' }]);
    expect(await b.next(never)).toEqual({ kind: 'over', end: { kind: 'finished' } });
  });

  it('ends also with a failure of many words, and starts again', async () => {
    const hosts = start({ maxRestarts: 1 });
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [first] = await gather([a, b]);
    if (first === undefined) throw new Error('no generation');
    const reason = `Error: ${'long '.repeat(2000)}`;
    await b.end(first, { kind: 'failed', failure: { rank: 1, node: 'node 1 (b)', reason } });
    expect(await a.ended(first)).toMatchObject({
      failure: { rank: 1, reason: reason.slice(0, 4096) },
    });
    expect(await gather([a, b])).toMatchObject([{ restarts: 1 }, { restarts: 1 }]);
  });

  it('ends for all hosts with what was said first, and starts again within the budget', async () => {
    const hosts = start({ maxRestarts: 1, checkpoints: ['', '/runs/job/checkpoints/step-2'] });
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [first] = await gather([a, b]);
    if (first === undefined) throw new Error('no generation');
    await b.end(first, failed(1));
    await a.end(first, failed(0));
    expect(await a.ended(first)).toEqual(failed(1));
    const [second] = await gather([a, b]);
    expect(second).toMatchObject({
      epoch: 1,
      restarts: 1,
      resumeDirectory: '/runs/job/checkpoints/step-2',
    });
    await a.end(second ?? first, failed(0));
    expect(await b.next(never)).toEqual({ kind: 'over', end: failed(0) });
    expect(await a.next(never)).toEqual({ kind: 'over', end: failed(0) });
  });

  it('is the last one where a rank made a mistake, whatever the budget', async () => {
    const hosts = start({ maxRestarts: 3 });
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [first] = await gather([a, b]);
    if (first === undefined) throw new Error('no generation');
    const { failure } = failed(1);
    const end = { kind: 'failed', failure: { ...failure, kind: 'mistake' } } as const;
    await b.end(first, end);
    expect(await a.next(never)).toEqual({ kind: 'over', end });
    expect(await b.next(never)).toEqual({ kind: 'over', end });
  });

  it('is the last one where no checkpoint is whole', async () => {
    const hosts = start({ maxRestarts: 3, checkpoints: ['', 'damaged'] });
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [first] = await gather([a, b]);
    if (first === undefined) throw new Error('no generation');
    await b.end(first, failed(1));
    const ends = await Promise.all([a.next(never), b.next(never)]);
    expect(ends).toEqual([
      { kind: 'over', end: failed(1) },
      { kind: 'over', end: failed(1) },
    ]);
  });

  it('takes in a host that comes later, at no cost', async () => {
    const hosts = start({ minNodes: 1, maxNodes: 2, lastCallMs: 50 });
    const a = await hosts.host('a');
    const first = generationOf(await a.next(never));
    const b = await hosts.host('b');
    const waiting = b.next(never);
    expect(await a.ended(first)).toEqual({ kind: 'joined', nodes: ['b'] });
    const second = generationOf(await a.next(never));
    expect(names(second)).toEqual(['a', 'b']);
    expect(second).toMatchObject({ epoch: 1, restarts: 0 });
    expect(generationOf(await waiting).nodeRank).toBe(1);
  });

  it('goes on without a host that gives no sign of life', async () => {
    const hosts = start({ minNodes: 1, maxNodes: 2, maxRestarts: 1, lastCallMs: 50 });
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [first] = await gather([a, b]);
    if (first === undefined) throw new Error('no generation');
    await b.close();
    expect(await a.ended(first)).toEqual({
      kind: 'failed',
      failure: {
        node: 'node 1 (b)',
        reason: 'its launcher gave no sign of life for 400 ms',
      },
    });
    const second = generationOf(await a.next(never));
    expect(names(second)).toEqual(['a']);
    expect(second).toMatchObject({ epoch: 1, restarts: 1 });
  });

  it('waits for a host that has not come again, and says for which one, why, and how long', async () => {
    const hosts = start({ maxRestarts: 1 });
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [first] = await gather([a, b]);
    if (first === undefined) throw new Error('no generation');
    await b.end(first, failed(1));
    const next = a.next(never);
    await expect
      .poll(() => hosts.notices)
      .toContain(
        'Rank 1 on node 1 (b) failed: it broke. Waiting up to 10 s for node 1 (b) or others in their place: ' +
          '1 of 2 hosts have come.',
      );
    await gather([b]);
    expect(generationOf(await next)).toMatchObject({ epoch: 1, restarts: 1 });
  });

  it('ends where the host that serves the store gives no sign of life', async () => {
    const hosts = start();
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [, second] = await gather([a, b]);
    if (second === undefined) throw new Error('no generation');
    const ended = b.ended(second);
    const silent = a.close();
    expect(await ended).toMatchObject({ kind: 'failed', failure: { node: /store/ } });
    await silent;
  });
});

describe('the host that leads', () => {
  it('waits for those that have to learn of the end, also if others have left the run before', async () => {
    const hosts = start({ minRanks: 1 });
    const a = await hosts.host('a');
    let next = await gather([a, await hosts.host('b')]).then(([, own]) => own);
    for (const name of ['c', 'd']) {
      await hosts.leave();
      const came = await hosts.host(name);
      next = generationOf(await came.next(never));
      expect(next).toMatchObject({ epoch: 0, nodeRank: 1 });
    }
    // This one waits for a place, and hears of the end as it looks for one.
    const e = await hosts.host('e');
    const waiting = e.next(never);
    await sleep(100);
    await hosts.leave(a);
    expect(await waiting).toEqual({ kind: 'over', end: { kind: 'stopped', node: 'a' } });
  });
});

describe('a host that is cut off', () => {
  it('ends its generation, comes again when it hears of the store, and takes part in the next one', async () => {
    const link = new Link();
    const hosts = start({ maxRestarts: 1 });
    const [a, b] = [await hosts.host('a'), await hosts.host('b', { link })];
    const [first, second] = await gather([a, b]);
    if (first === undefined || second === undefined) throw new Error('no generation');
    link.cut();
    expect(await b.ended(second)).toMatchObject({
      kind: 'failed',
      failure: {
        node: expect.stringMatching(/^the host of the store/),
        reason: expect.stringMatching(/^no answer for \d+ ms$/),
      },
      isCutOff: true,
    });
    expect(await a.ended(first)).not.toHaveProperty('isCutOff');
    expect(await a.ended(first)).toMatchObject({
      kind: 'failed',
      failure: { node: 'node 1 (b)', reason: expect.stringMatching(/no sign of life/) },
    });
    const next = gather([a, b]);
    await expect
      .poll(() => hosts.notices.join())
      .toMatch(/^Node 0, which leads .* waits up to 10 s/);
    link.mend();
    for (const generation of await next)
      expect(generation).toMatchObject({ epoch: 1, restarts: 1 });
  });

  it('names the rank that its own ranks have named, and says that it could tell nobody', async () => {
    const link = new Link();
    const hosts = start();
    const [a, b] = [await hosts.host('a'), await hosts.host('b', { link })];
    const [, second] = await gather([a, b]);
    if (second === undefined) throw new Error('no generation');
    link.cut();
    await b.end(second, failed(0));
    const end = {
      kind: 'failed',
      failure: {
        rank: 0,
        reason: expect.stringMatching(
          /^it broke; the host of the store \S+ failed as well: no answer/,
        ),
      },
    };
    expect(await b.ended(second)).toMatchObject(end);
    expect(await b.next(never)).toMatchObject({ kind: 'over', end });
    link.mend();
  });

  it('is never the one that leads, which cannot be cut off from itself', async () => {
    const hosts = start();
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [first, second] = await gather([a, b]);
    if (first === undefined || second === undefined) throw new Error('no generation');
    await hosts.spoilEnd(0);
    expect(await a.ended(first)).toMatchObject({ kind: 'failed', isCutOff: false });
    expect(await b.ended(second)).toMatchObject({ kind: 'failed', isCutOff: true });
  });

  it('looks for its place after it was halted, because the others may have missed it', async () => {
    const hosts = start();
    const [a, b] = [await hosts.host('a'), await hosts.host('b')];
    const [first, second] = await gather([a, b]);
    if (first === undefined || second === undefined) throw new Error('no generation');
    await hosts.loseSeats(second.nodes[1]?.id);
    let hasEnded = false;
    const ended = b.ended(second).finally(() => {
      hasEnded = true;
    });
    await sleep(100);
    expect(hasEnded).toBe(false);
    // All hosts of this test are halted, so none misses another one.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600);
    expect(await ended).toMatchObject({
      kind: 'failed',
      failure: { node: 'this host', reason: 'it was halted, and its place was given up' },
      isCutOff: true,
    });
  });

  it('is quiet before it is lost, and not once it is heard again', async () => {
    const link = new Link();
    const hosts = start();
    const [a, b] = [await hosts.host('a'), await hosts.host('b', { link })];
    const [first] = await gather([a, b]);
    if (first === undefined) throw new Error('no generation');
    expect(a.isQuiet(first, 1)).toBe(false);
    link.cut();
    await expect.poll(() => a.isQuiet(first, 1), { interval: 5 }).toBe(true);
    link.mend();
    await expect.poll(() => a.isQuiet(first, 1), { interval: 5 }).toBe(false);
    expect(a.isQuiet(first, 0)).toBe(false);
  });
});

describe('what is read from the store', () => {
  const encode = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
  it.each([
    ['no JSON', new TextEncoder().encode('{')],
    ['another value', encode(7)],
    ['a state without hosts', encode({ phase: 'running', leader: randomUUID(), epoch: 0 })],
    [
      'too many hosts',
      encode({
        phase: 'running',
        leader: randomUUID(),
        epoch: 0,
        nodes: Array.from({ length: 2000 }, () => ({
          id: randomUUID(),
          name: 'x',
          address: 'x',
          ranks: 1,
        })),
        waiting: [],
        restarts: 0,
        runDirectory: '/x',
      }),
    ],
  ])('is refused where it is %s', (_, bytes) => {
    expect(() => decodeState(bytes)).toThrow(/not what a launcher of this version writes/);
    expect(() => decodeEnd(bytes)).toThrow(/not what a launcher of this version writes/);
  });
});
