import { setTimeout as delay } from 'node:timers/promises';
import { ConfigError, ShardwiseError } from '@shardwise/core/extend';
import { describeError } from '../text/describe-error.ts';
import { Conductor, type ConductorOptions } from './conductor.ts';
import type { OpenedStore } from './open-store.ts';
import { Pulse } from './pulse.ts';
import type { NextGeneration, Rendezvous } from './rendezvous.ts';
import {
  type Arrival,
  decodeEnd,
  encodeEnd,
  endKey,
  finishedKey,
  LEFT_KEY,
  type RendezvousState,
} from './rendezvous-state.ts';
import type { Generation, GenerationEnd, HostChange } from './generation.ts';
import { SharedState } from './shared-state.ts';

export interface StoreRendezvousOptions extends Omit<
  ConductorOptions,
  'store' | 'shared' | 'pulse' | 'id'
> {
  readonly opened: OpenedStore;
  readonly secret: string;
  readonly own: Arrival;
  readonly runDirectory: string;
  /** The module that makes the transport of the ranks, by the name that this host has been given. */
  readonly transport?: string | undefined;
}

const POLL_MS = 50;
/** How long a host that leaves waits for other hosts, which may still have to learn that the run is over. */
const LEAVE_MS = 1000;
/** A host that has missed this many heartbeats counts as quiet. */
const QUIET_BEATS = 4;

/** The rendezvous of hosts that agree through a store. One of them serves it. */
export class StoreRendezvous implements Rendezvous {
  readonly #options: StoreRendezvousOptions;
  readonly #shared: SharedState;
  readonly #pulse: Pulse;
  readonly #conductor: Conductor | undefined;
  #beating: NodeJS.Timeout | undefined;
  /** Settles when this host has lost the others for good. */
  readonly #lost = Promise.withResolvers<GenerationEnd>();
  #isLost = false;
  /** Settles when this host is cut off during a generation. The others may become reachable again. */
  #cut = Promise.withResolvers<GenerationEnd>();
  /** Whether this host may take part again after it was cut off. */
  #canRestart = false;
  /** Whether the user has been told what this host waits for. */
  #isTold = false;
  #leader: string | undefined;
  /** The admission with which this host last took part. */
  #admission = -1;
  /** The restarts of the budget that are used up. */
  #restarts = 0;
  #isBeating = false;
  #lastBeatMs = performance.now();
  /**
   * The number of heartbeats since the store last answered. It counts beats instead of time, because a host that was
   * halted itself has not been cut off.
   */
  #beatsWithoutAnswer = 0;
  /** How this host said that the generation ended, until the store has received it. */
  #unheard: GenerationEnd | undefined;
  /** Whether this host has learned from the others that its generation is over, or the run. */
  #knowsEnd = false;

  constructor(options: StoreRendezvousOptions) {
    const { opened, own, times } = options;
    const { store } = opened;
    this.#options = options;
    this.#shared = new SharedState(store);
    this.#pulse = new Pulse(store, times.heartbeatMs);
    this.#conductor =
      opened.server === undefined
        ? undefined
        : new Conductor({
            ...options,
            store,
            shared: this.#shared,
            pulse: this.#pulse,
            id: own.id,
          });
  }

  /**
   * Opens the rendezvous. It must be called once, before anything else. Throws ConfigError if this host has been given
   * another transport than the leader.
   */
  async open(): Promise<void> {
    const { own, runDirectory, transport, minRanks, times } = this.#options;
    if (this.#conductor === undefined) {
      const led = await this.#shared.read(times.joinTimeoutMs);
      if (transport !== undefined && led.transport !== transport) {
        throw otherTransportError(transport, led.transport);
      }
      if (minRanks !== led.minRanks) throw otherMinRanksError(minRanks, led.minRanks);
    }
    this.#beating = setInterval(() => void this.#beat(), times.heartbeatMs);
    if (this.#conductor === undefined) return;
    await this.#shared.create({
      phase: 'gathering',
      leader: own.id,
      epoch: -1,
      nodes: [],
      admissions: 0,
      waiting: [],
      restarts: 0,
      runDirectory,
      transport,
      minRanks,
    });
    this.#conductor.start((error) => this.#lose(whyLost(error)));
  }

  async next(signal: AbortSignal): Promise<NextGeneration> {
    const aborted = Promise.withResolvers<never>();
    const onAbort = (): void => aborted.reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([
        this.#take(signal),
        this.#lost.promise.then((end) => ({ kind: 'over', end }) as const),
        aborted.promise,
      ]);
    } catch (error) {
      signal.throwIfAborted();
      return { kind: 'over', end: this.#lose(whyLost(error)) };
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  async finish({ epoch }: Generation): Promise<void> {
    const { store } = this.#options.opened;
    await this.#answered(store.add(finishedKey(epoch), 1));
  }

  async end({ epoch }: Generation, end: GenerationEnd): Promise<void> {
    const { store } = this.#options.opened;
    this.#unheard ??= end;
    const tell = async (): Promise<void> => {
      await store.compareSet(endKey(epoch), undefined, encodeEnd(end));
      this.#unheard = undefined;
    };
    await this.#answered(tell());
  }

  async ended({ epoch }: Generation): Promise<GenerationEnd> {
    const { store } = this.#options.opened;
    const said = store
      .get(endKey(epoch), { timeoutMs: Infinity })
      .then((bytes) => {
        this.#knowsEnd = true;
        return decodeEnd(bytes);
      })
      .catch((error: unknown) => this.#lose(whyLost(error)));
    return Promise.race([said, this.#cut.promise, this.#lost.promise]);
  }

  isQuiet({ nodes }: Generation, place: number): boolean {
    const id = nodes[place]?.id;
    const { own, times } = this.#options;
    if (id === undefined || id === own.id) return false;
    // A leader whose store does not answer cannot report its own state either.
    if (id === this.#leader && this.#beatsWithoutAnswer > QUIET_BEATS) return true;
    return this.#pulse.lastSilentMs(id) > QUIET_BEATS * times.heartbeatMs;
  }

  get leads(): boolean {
    return this.#conductor !== undefined;
  }

  onHosts(listener: (change: HostChange) => void): void {
    this.#conductor?.onHosts(listener);
  }

  /** Only the host that leads takes them, so it knows their number. */
  takeRestart(): boolean {
    if (this.#restarts >= this.#options.maxRestarts) return false;
    this.#restarts += 1;
    const told = this.#shared.update((state) => ({ ...state, restarts: state.restarts + 1 }));
    told.catch((error: unknown) => this.#lose(whyLost(error)));
    return true;
  }

  async close(): Promise<void> {
    const { store, server } = this.#options.opened;
    await this.#conductor?.stop();
    const leaving =
      server === undefined
        ? Promise.race([
            // A host that leaves while the others go on is not one that the end of the run waits for.
            this.#knowsEnd ? store.add(LEFT_KEY, 1) : undefined,
            delay(LEAVE_MS, undefined, { ref: false }),
            this.#lost.promise,
          ])
        : this.#dismiss();
    // If the store is gone, there is nobody to leave.
    await leaving.catch(() => undefined);
    clearInterval(this.#beating);
    store.close();
    server?.close();
  }

  /** Tells the other hosts that the run is over, if they don't know, and waits until those that are alive have left. */
  async #dismiss(): Promise<void> {
    const { opened, own, times } = this.#options;
    const { nodes, waiting } = await this.#shared.update((state) =>
      state.phase === 'over'
        ? undefined
        : { ...state, phase: 'over', end: { kind: 'stopped', node: own.name } },
    );
    const others = new Set(
      [...nodes, ...waiting].map(({ id }) => id).filter((id) => id !== own.id),
    );
    const deadline = performance.now() + LEAVE_MS;
    while (performance.now() < deadline) {
      const silences = await Promise.all([...others].map((id) => this.#pulse.silentMs(id)));
      const living = silences.filter((silentMs) => silentMs <= QUIET_BEATS * times.heartbeatMs);
      const left = await opened.store.add(LEFT_KEY, 0);
      if (left >= others.size || living.length === 0) return;
      await delay(POLL_MS);
    }
  }

  /** Announces this host, and waits until a generation starts with it. */
  async #take(signal: AbortSignal): Promise<NextGeneration> {
    const { own } = this.#options;
    const isOwn = ({ id }: Arrival): boolean => id === own.id;
    const seatIn = ({ phase, nodes }: RendezvousState): number =>
      nodes.findIndex(
        (seat) =>
          phase === 'running' &&
          isOwn(seat) &&
          seat.isLost !== true &&
          seat.admission > this.#admission,
      );
    for (;;) {
      signal.throwIfAborted();
      const state = await this.#shared.update((current) => {
        if (current.phase === 'over' || current.waiting.some(isOwn)) return undefined;
        return seatIn(current) >= 0
          ? undefined
          : { ...current, waiting: [...current.waiting, own] };
      });
      this.#leader = state.leader;
      if (state.phase === 'over') {
        this.#knowsEnd = true;
        return { kind: 'over', end: state.end ?? { kind: 'finished' } };
      }
      const nodeRank = seatIn(state);
      const seat = state.nodes[nodeRank];
      if (seat !== undefined) {
        this.#admission = seat.admission;
        this.#restarts = state.restarts;
        this.#cut = Promise.withResolvers();
        this.#isTold = false;
        this.#unheard = undefined;
        this.#knowsEnd = false;
        const { maxRestarts, minRanks } = this.#options;
        this.#canRestart = minRanks !== undefined || state.restarts < maxRestarts;
        return { kind: 'generation', generation: this.#generationOf(state, nodeRank) };
      }
      await delay(POLL_MS);
    }
  }

  #generationOf(state: RendezvousState, nodeRank: number): Generation {
    const { opened, secret } = this.#options;
    const { epoch, nodes, restarts, runDirectory, resumeDirectory, transport } = state;
    const store = { host: opened.host, port: opened.port, secret };
    return { epoch, nodes, nodeRank, restarts, runDirectory, resumeDirectory, transport, store };
  }

  /** Waits for a call of the store. It gives up if this host is cut off. */
  async #answered(call: Promise<unknown>): Promise<void> {
    await Promise.race([call, this.#cut.promise, this.#lost.promise]).catch((error: unknown) => {
      this.#lose(whyLost(error));
    });
  }

  /**
   * Looks whether this host still has its place, after it was halted for so long that it may have been missed. What it was
   * told meanwhile may be deleted.
   */
  async #lookForPlace(): Promise<void> {
    const { phase, nodes } = await this.#shared.read();
    const { id } = this.#options.own;
    const isSeated = nodes.some(
      (seat) => seat.id === id && seat.admission === this.#admission && seat.isLost !== true,
    );
    if (phase !== 'running' || isSeated) return;
    const failure = { node: 'this host', reason: 'it was halted, and its place was given up' };
    this.#cut.resolve({ kind: 'failed', failure, isCutOff: true });
  }

  async #beat(): Promise<void> {
    const { own, opened, times } = this.#options;
    const sinceMs = performance.now() - this.#lastBeatMs;
    this.#lastBeatMs += sinceMs;
    const wasHalted = this.#admission >= 0 && sinceMs > times.heartbeatLimitMs;
    const silentMs = this.#beatsWithoutAnswer * times.heartbeatMs;
    this.#beatsWithoutAnswer += 1;
    // If the generation has failed and no other generation follows, this host waits only for the answer of the store, and not so
    // long.
    const isOver = this.#unheard?.kind === 'failed' && !this.#canRestart;
    const limitMs = isOver ? QUIET_BEATS * times.heartbeatMs : times.heartbeatLimitMs;
    if (silentMs > limitMs) this.#hearNothing(silentMs);
    if (this.#isBeating || this.#isLost) return;
    this.#isBeating = true;
    try {
      await this.#pulse.beat(own.id);
      this.#beatsWithoutAnswer = 0;
      if (wasHalted) await this.#lookForPlace();
      const leader = opened.server === undefined ? this.#leader : undefined;
      const leaderSilentMs = leader === undefined ? 0 : await this.#pulse.silentMs(leader);
      if (leaderSilentMs > times.heartbeatLimitMs) {
        this.#lose(`its launcher gave no sign of life for ${Math.round(leaderSilentMs)} ms`);
      }
    } catch (error) {
      this.#lose(whyLost(error));
    } finally {
      this.#isBeating = false;
    }
  }

  /**
   * Reacts to a store that does not answer. Its host has not closed the connection, so it may be busy, or the network
   * may be interrupted for a while.
   */
  #hearNothing(silentMs: number): void {
    const { times, opened, onNotice } = this.#options;
    const reason = `no answer for ${silentMs} ms`;
    if (!this.#canRestart || silentMs > times.joinTimeoutMs) {
      this.#lose(reason);
      return;
    }
    this.#cut.resolve(this.#failure(reason));
    if (this.#isTold) return;
    this.#isTold = true;
    const seconds = Math.ceil(times.joinTimeoutMs / 1000);
    const where = `${opened.host}:${opened.port}`;
    onNotice(
      `Node 0, which leads the run at ${where}, gives ${reason}. The ranks of this host end, and it waits up to ${seconds} s for node 0.`,
    );
  }

  /** Records that this host has lost the others. Only the first reason counts. */
  #lose(reason: string): GenerationEnd {
    const end = this.#failure(reason);
    this.#isLost = true;
    this.#lost.resolve(end);
    // No answer will come, so calls that wait for one are ended. The host that serves the store keeps it open, because
    // it still has to dismiss the others.
    if (this.#conductor === undefined) this.#options.opened.store.close();
    return end;
  }

  /** Returns the failure to report. If this host knows of a failed rank, that says more than the loss of the store. */
  #failure(reason: string): GenerationEnd {
    const { host, port } = this.#options.opened;
    const node = `the host of the store ${host}:${port}`;
    const said = this.#unheard?.kind === 'failed' ? this.#unheard.failure : undefined;
    const failure =
      said === undefined
        ? { node, reason }
        : { ...said, reason: `${said.reason}; ${node} failed as well: ${reason}` };
    return { kind: 'failed', failure, isCutOff: this.#conductor === undefined };
  }
}

/** Says in a few words why the store cannot be used. */
function whyLost(error: unknown): string {
  const isEnd = ShardwiseError.isInstance(error) && error.code === 'COLLECTIVE_ABORTED';
  const { reason } = isEnd ? error.fields : {};
  return typeof reason === 'string' ? reason.replace(/^Error: /, '') : describeError(error);
}

function otherTransportError(own: string, led: string | undefined): ConfigError {
  return new ConfigError(
    {
      asked: `--transport ${own}`,
      found: led === undefined ? 'node 0 was started without it' : `node 0 has --transport ${led}`,
      todo: 'Give every host the same --transport, or only node 0',
    },
    { transport: own, found: led },
  );
}

function otherMinRanksError(own: number | undefined, led: number | undefined): ConfigError {
  const text = (ranks: number | undefined): string =>
    ranks === undefined ? 'no --min-nproc' : `--min-nproc ${ranks}`;
  return new ConfigError(
    {
      asked: `A host with ${text(own)}`,
      found: `node 0 has ${text(led)}`,
      todo: 'Give every host the same --min-nproc, which counts the ranks of all hosts',
    },
    { minNproc: own, found: led },
  );
}
