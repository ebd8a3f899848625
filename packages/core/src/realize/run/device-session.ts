import { rankState } from '../../ambient.ts';
import type { Node } from '../../graph/node.ts';
import { hostBytes, moveToHost, moveToPage } from '../../graph/ownership.ts';
import { targetOf } from '../../graph/updated-leaves.ts';
import { ExtendedMesh } from '../../mesh.ts';
import type { PageSource, PageStore } from '../../paging/page.ts';
import type { Backend } from '../../spec/backend.ts';
import type { TensorStateError } from '../../spec/errors.ts';
import type { Mesh } from '../../spec/mesh.ts';
import type { CallOrder, ProcessGroup } from '../../spec/process-group.ts';
import type { Compute, Deferred, Session, EnqueueOptions } from '../session.ts';
import { IssueTimer } from './issue-timer.ts';
import {
  type Backlog,
  Realization,
  type RunOptions,
  type Surroundings,
  takeBacklog,
} from './realization.ts';
import { SessionCalls } from './session-calls.ts';
import { pageBytes, type ReadableValue, readableValue } from './value-bytes.ts';

const nothingPending: Backlog = {
  pending: new Map(),
  released: [],
  offered: [],
  unissued: new Map(),
};

/** The session of one device and one mesh. */
export class DeviceSession implements Session {
  readonly backend: Backend;
  #mesh: Mesh;
  readonly #extensions = new Set<string>();
  readonly #stores: (PageStore | PageSource)[] = [];
  readonly #realization: Realization;
  readonly #calls = new SessionCalls();
  readonly #issueTimer = new IssueTimer(this);
  /** The error of a run that was not awaited. The next call, or `finish`, throws it. */
  #failedAhead: { readonly error: unknown } | null = null;
  #deferred: Deferred | null = null;
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
    return this.#calls.isBusy;
  }

  /** Whether the program has made collectives that this session has not issued. After setRank, another session does. */
  get isBehind(): boolean {
    return rankState.session === this && rankState.unissued.size > 0;
  }

  async finish(): Promise<void> {
    await this.issueAll();
    await this.#calls.settle();
    await this.#throwFailedAhead();
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
    const value = await this.#valueOf(node);
    if (value.kind === 'host') return { bytes: hostBytes(value) };
    if (value.kind === 'paged') return { bytes: await pageBytes(value.page) };
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
    const whole = this.#calls.runAside(async () => {
      const bytes = await reading;
      // Runs of the calls that are under way may still use the memory of the value.
      void this.#calls.run(async () => {
        if (node.value === value) moveToHost(node, bytes);
      });
      return bytes;
    });
    return { bytes: whole };
  }

  async #valueOf(node: Node): Promise<ReadableValue> {
    if (node.value === null) await this.#run([node]);
    return readableValue(node);
  }

  view(node: Node): Promise<Uint8Array> {
    return this.#inOrder(async () => this.#bytesInPlace(await this.#valueOf(node)));
  }

  /** Returns bytes in the place where they lie, if the device computes in host memory, otherwise a copy. */
  async #bytesInPlace(value: ReadableValue): Promise<Uint8Array> {
    if (value.kind === 'host') return value.bytes;
    if (value.kind === 'paged') return pageBytes(value.page);
    this.#realization.checkUsable();
    const { buffer } = value.storage;
    return this.backend.map(buffer) ?? this.backend.read(buffer);
  }

  pageOut(leaf: Node, name: string, store: PageStore): Promise<void> {
    return this.#inOrder(async () => {
      const value = readableValue(leaf);
      if (value.kind === 'paged') return;
      moveToPage(leaf, await store.write(name, await this.#bytesInPlace(value)));
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
    const { done } = await this.#calls.run(async () => {
      const done = issue();
      // It is awaited below, and can have been rejected a turn before that.
      done.catch(() => undefined);
      return { done };
    });
    return done;
  };

  issueSoon(): void {
    this.#issueTimer.start();
  }

  flush(): void {
    this.#runAhead(takeBacklog());
  }

  #runAhead(backlog: Backlog): void {
    rankState.runsQueued++;
    void this.#calls.run(() =>
      this.#ahead(async () => {
        rankState.runsQueued = Math.max(0, rankState.runsQueued - 1);
        await this.#runDeferred();
        await this.#realization.run([], this.#surroundings, backlog, { issuesAll: true });
        // Collectives that the program has made meanwhile have started no timer.
        if (this.isBehind) this.#issueTimer.start();
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
    void this.#calls.run(async () => {
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
    if (this.#failedAhead !== null) await this.#throwFailedAhead();
    if (this.#tasksQueued > 0) {
      // Pending work is left for later. It may read released memory, so nothing is freed now.
      const backlog = { ...nothingPending, unissued: new Map(rankState.unissued) };
      await this.#realization.run(nodes, this.#surroundings, backlog, { frees: false });
      return;
    }
    await this.#realization.run(nodes, this.#surroundings, takeBacklog(), options);
    if (rankState.unissued.size === 0) this.#issueTimer.stop();
  }

  async #throwFailedAhead(): Promise<void> {
    const failed = this.#failedAhead;
    this.#failedAhead = null;
    if (failed === null) return;
    await this.#realization.giveUpUnreadable(failed.error);
    throw failed.error;
  }

  get #surroundings(): Surroundings {
    return { mesh: this.#mesh, stores: this.#stores };
  }

  /** Runs `body` after earlier calls. It is an async function, so that errors of a run have the caller's line. */
  async #inOrder<T>(body: () => Promise<T>): Promise<T> {
    this.#runsUnderWay++;
    return this.#calls.run(async () => {
      try {
        await this.#runDeferred();
        return await body();
      } finally {
        this.#runsUnderWay--;
      }
    });
  }
}

/** Whether this is the rank that warns for all. All ranks run the same program. */
function isFirst(mesh: Mesh): boolean {
  return mesh.axes.every(({ name }) => mesh.coordinate(name) === 0);
}
