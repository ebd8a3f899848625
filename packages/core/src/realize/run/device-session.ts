import { rankState } from '../../ambient.ts';
import type { Node } from '../../graph/node.ts';
import { hostBytes, moveToHost, moveToPage } from '../../graph/ownership.ts';
import { targetOf } from '../../graph/updated-leaves.ts';
import { ExtendedMesh } from '../../mesh.ts';
import type { Page, PageSource, PageStore } from '../../paging/page.ts';
import { formatShape } from '../../base/shape.ts';
import type { Backend } from '../../spec/backend.ts';
import { TensorStateError } from '../../spec/errors.ts';
import type { Mesh } from '../../spec/mesh.ts';
import type { CallOrder, ProcessGroup } from '../../spec/process-group.ts';
import { nextTurn } from '../../base/next-turn.ts';
import type { Compute, Deferred, Session, EnqueueOptions } from '../session.ts';
import {
  type Backlog,
  Realization,
  type RunOptions,
  type Surroundings,
  takeBacklog,
} from './realization.ts';

const nothingPending: Backlog = {
  pending: new Map(),
  released: [],
  offered: [],
  unissued: new Map(),
};

/** The milliseconds for which work may go on in microtasks alone. Then timers, input and finalizers get a turn. */
const TURN_MS = 10;

/**
 * A rank that has built nothing for so many milliseconds issues the collectives that it has made. Other ranks may wait
 * for them, while this one waits for something else, or has come to the end of its script.
 */
const IDLE_MS = 100;

/** The session of one device and one mesh. */
export class DeviceSession implements Session {
  readonly backend: Backend;
  #mesh: Mesh;
  readonly #extensions = new Set<string>();
  readonly #stores: (PageStore | PageSource)[] = [];
  readonly #realization: Realization;
  #last: Promise<void> = Promise.resolve();
  /** The error of a run that was not awaited. The next call, or `finish`, throws it. */
  #failedAhead: { readonly error: unknown } | null = null;
  #deferred: Deferred | null = null;
  #turnBegan = performance.now();
  /** The timer that issues collectives on a rank that reads nothing. */
  #issueTimer: ReturnType<typeof setTimeout> | null = null;
  #newestNode = 0;
  /** Reads that are waited for outside the order of the calls. */
  readonly #readsUnderWay = new Set<Promise<void>>();
  #callsUnderWay = 0;
  /** The number of calls under way that compute what is pending. */
  #runsUnderWay = 0;
  /** The number of tasks of `enqueue` that have not begun. */
  #tasksQueued = 0;

  constructor(backend: Backend, mesh: Mesh) {
    this.backend = backend;
    this.#mesh = mesh;
    this.#realization = new Realization(backend, (message) => {
      if (isFirst(this.#mesh)) console.warn(`shardwise: ${message}`);
    });
  }

  get mesh(): Mesh {
    return this.#mesh;
  }

  async extendMesh(
    name: string,
    axis: string,
    make: (group: ProcessGroup) => Promise<ProcessGroup>,
  ): Promise<void> {
    if (this.#extensions.has(name)) return;
    this.#extensions.add(name);
    const group = this.#mesh.group(axis);
    const known = rankState.communicators.get(group) ?? new Map<string, ProcessGroup>();
    rankState.communicators.set(group, known);
    const own = known.get(name) ?? (await make(group));
    // Whoever asks for a group of its own gives the calls their order.
    own.orderCalls?.(null);
    known.set(name, own);
    this.#mesh = new ExtendedMesh(this.#mesh, name, own);
  }

  get isComputing(): boolean {
    return this.#callsUnderWay > 0;
  }

  async finish(): Promise<void> {
    await this.issueAll();
    while (this.#callsUnderWay > 0) await Promise.all([this.#last, ...this.#readsUnderWay]);
    this.#throwFailedAhead();
  }

  numberOf(store: PageStore | PageSource): number {
    const known = this.#stores.indexOf(store);
    return known >= 0 ? known : this.#stores.push(store) - 1;
  }

  realize(nodes: readonly Node[]): Promise<void> {
    return this.#inOrder(() => this.#run(nodes));
  }

  async fetch(node: Node): Promise<Uint8Array> {
    const reading = await this.#inOrder(() => this.#beginFetch(node));
    return reading.bytes;
  }

  /**
   * Begins to read a value, in the order of the calls. If nothing can change the value and the device has memory of its
   * own, the read is waited for outside this order, so that the next calls can submit work to the device meanwhile.
   */
  async #beginFetch(node: Node): Promise<{ readonly bytes: Uint8Array | Promise<Uint8Array> }> {
    if (node.value === null) await this.#run([node]);
    const { value } = node;
    if (value?.kind === 'failed') throw value.error;
    if (value?.kind === 'host') return { bytes: hostBytes(value) };
    if (value?.kind === 'paged') return { bytes: await pageBytes(value.page) };
    if (value?.kind !== 'device') throw freedError(node);
    this.#realization.checkUsable();
    const { buffer } = value.storage;
    const reading = this.backend.read(buffer);
    const holder = node.op === 'assign' ? targetOf(node) : node;
    const mayChange = node.op === 'input' || node.op === 'detach' || node.op === 'assign';
    if (mayChange || holder.resident || this.backend.map(buffer) !== undefined) {
      const bytes = await reading;
      if (!holder.resident) moveToHost(node, bytes);
      return { bytes };
    }
    const whole = this.#follow(reading, (bytes) => {
      if (node.value === value) moveToHost(node, bytes);
    });
    return { bytes: whole };
  }

  /**
   * Waits for a read. `keep` is called behind the calls that are under way when the bytes are there, because their runs
   * may still use the memory of the value.
   */
  async #follow(reading: Promise<Uint8Array>, keep: (bytes: Uint8Array) => void) {
    this.#callsUnderWay++;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#readsUnderWay.add(promise);
    try {
      const bytes = await reading;
      void this.#oneAfterAnother(async () => keep(bytes));
      return bytes;
    } finally {
      this.#callsUnderWay--;
      this.#readsUnderWay.delete(promise);
      resolve();
    }
  }

  view(node: Node): Promise<Uint8Array> {
    return this.#inOrder(async () => {
      if (node.value === null) await this.#run([node]);
      const { value } = node;
      if (value?.kind === 'failed') throw value.error;
      if (value?.kind === 'host') return value.bytes;
      if (value?.kind !== 'device') throw freedError(node);
      this.#realization.checkUsable();
      const { buffer } = value.storage;
      return this.backend.map(buffer) ?? this.backend.read(buffer);
    });
  }

  pageOut(leaf: Node, name: string, store: PageStore): Promise<void> {
    return this.#inOrder(async () => {
      const { value } = leaf;
      if (value?.kind === 'paged') return;
      if (value?.kind !== 'host' && value?.kind !== 'device') throw freedError(leaf);
      const { backend } = this;
      const bytes =
        value.kind === 'host'
          ? value.bytes
          : (backend.map(value.storage.buffer) ?? (await backend.read(value.storage.buffer)));
      moveToPage(leaf, await store.write(name, bytes));
      leaf.resident = false;
    });
  }

  async issueAll(): Promise<void> {
    const isOwed = this.#deferred !== null || rankState.unissued.size > 0;
    if (!isOwed && this.#failedAhead === null) return;
    await this.#inOrder(() => this.#run([], { issuesAll: true }));
  }

  readonly issueInOrder: CallOrder = async (issue) => {
    if (rankState.unissued.size > 0) this.#runAhead(takeBacklog());
    if (!this.isComputing) return issue();
    const { done } = await this.#oneAfterAnother(async () => ({ done: issue() }));
    return done;
  };

  issueSoon(): void {
    this.#issueTimer ??= setTimeout(() => this.#issueIfIdle(), IDLE_MS);
    this.#newestNode = rankState.nextNodeId;
  }

  /** Issues all collectives if the program has built nothing for a while, and waits for nothing here. */
  #issueIfIdle(): void {
    this.#issueTimer = null;
    // After setRank, another session has the collectives, and a timer of its own.
    if (rankState.session !== this || rankState.unissued.size === 0) return;
    if (this.isComputing || this.#newestNode !== rankState.nextNodeId) this.issueSoon();
    else this.flush();
  }

  flush(): void {
    this.#runAhead(takeBacklog());
  }

  #runAhead(backlog: Backlog): void {
    rankState.runsQueued++;
    void this.#oneAfterAnother(() =>
      this.#ahead(async () => {
        rankState.runsQueued = Math.max(0, rankState.runsQueued - 1);
        await this.#runDeferred();
        await this.#realization.run([], this.#surroundings, backlog, { issuesAll: true });
      }),
    );
  }

  enqueue(
    work: (compute: Compute) => Promise<void>,
    { runsDeferred = false }: EnqueueOptions = {},
  ): void {
    // Runs that were called and not awaited, and collectives that the program has made, come before the work. What is
    // pending now is computed before it, too, and apart from what the work makes pending.
    if (this.#runsUnderWay > 0 || rankState.unissued.size > 0) this.#runAhead(takeBacklog());
    this.#tasksQueued++;
    void this.#oneAfterAnother(async () => {
      this.#tasksQueued--;
      await this.#ahead(async () => {
        if (!runsDeferred) await this.#runDeferred();
        await work(this.#compute);
      });
    });
  }

  defer(work: Deferred): void {
    if (this.#deferred !== null) throw new RangeError('something is deferred already');
    this.#deferred = work;
  }

  takeDeferred(): Deferred | null {
    const deferred = this.#deferred;
    this.#deferred = null;
    return deferred;
  }

  async #runDeferred(): Promise<void> {
    await this.takeDeferred()?.(this.#compute);
  }

  // Pending work, which is computed after the work, may read what is released.
  readonly #compute: Compute = (nodes) =>
    this.#realization.run(nodes, this.#surroundings, nothingPending, { frees: false });

  /** Keeps an error of `run`. The next call throws it. */
  async #ahead(run: () => Promise<void>): Promise<void> {
    try {
      await run();
    } catch (error) {
      this.#failedAhead ??= { error };
    }
  }

  refuse(cause: unknown): TensorStateError {
    return this.#realization.refuse(cause);
  }

  async #run(nodes: readonly Node[], options: RunOptions = {}): Promise<void> {
    this.#throwFailedAhead();
    if (this.#tasksQueued > 0) {
      // Pending work is left for later. It may read released memory, so nothing is freed now.
      const backlog = { ...nothingPending, unissued: new Map(rankState.unissued) };
      await this.#realization.run(nodes, this.#surroundings, backlog, { frees: false });
      return;
    }
    await this.#realization.run(nodes, this.#surroundings, takeBacklog(), options);
    if (rankState.unissued.size > 0 || this.#issueTimer === null) return;
    clearTimeout(this.#issueTimer);
    this.#issueTimer = null;
  }

  #throwFailedAhead(): void {
    const failed = this.#failedAhead;
    this.#failedAhead = null;
    if (failed === null) return;
    this.#realization.giveUpUnreadable(failed.error);
    throw failed.error;
  }

  get #surroundings(): Surroundings {
    return { mesh: this.#mesh, stores: this.#stores };
  }

  /** Runs `body` after earlier calls. It is an async function, so that errors of a run have the caller's line. */
  async #inOrder<T>(body: () => Promise<T>): Promise<T> {
    this.#runsUnderWay++;
    return this.#oneAfterAnother(async () => {
      try {
        await this.#runDeferred();
        return await body();
      } finally {
        this.#runsUnderWay--;
      }
    });
  }

  async #oneAfterAnother<T>(body: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    this.#callsUnderWay++;
    await before;
    try {
      return await body();
    } finally {
      this.#callsUnderWay--;
      if (performance.now() - this.#turnBegan > TURN_MS) {
        await nextTurn();
        this.#turnBegan = performance.now();
      }
      resolve();
    }
  }
}

async function pageBytes(page: Page): Promise<Uint8Array> {
  const bytes = new Uint8Array(page.byteLength);
  await page.read(bytes);
  return bytes;
}

function freedError(node: Node): TensorStateError {
  const by = node.value?.kind === 'freed' ? node.value.by : 'an earlier run';
  return new TensorStateError(
    {
      asked: `the data of a tensor of shape ${formatShape(node.shape)}`,
      found: `its memory was freed by ${by}`,
      todo: 'Read it before it is freed',
    },
    { shape: node.shape },
  );
}

/** Whether this is the rank that warns for all. All ranks run the same program. */
function isFirst(mesh: Mesh): boolean {
  return mesh.axes.every(({ name }) => mesh.coordinate(name) === 0);
}
