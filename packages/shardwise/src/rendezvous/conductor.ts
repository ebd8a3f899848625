import { setTimeout as delay } from 'node:timers/promises';
import type { Store } from '@shardwise/core/extend';
import type { Pulse } from './pulse.ts';
import { type FindResume, mayStartAgain, type RendezvousTimes } from './rendezvous.ts';
import {
  type Arrival,
  decodeEnd,
  encodeJson,
  endKey,
  finishedKey,
  type RendezvousState,
} from './rendezvous-state.ts';
import { changeSeats, type SeatChange } from './change-seats.ts';
import { describeFailure, nodeLabel, type GenerationEnd, type HostChange } from './generation.ts';
import type { SharedState } from './shared-state.ts';

export interface ConductorOptions {
  readonly store: Store;
  readonly shared: SharedState;
  readonly pulse: Pulse;
  /** The id of this host. */
  readonly id: string;
  readonly minNodes: number;
  readonly maxNodes: number;
  readonly maxRestarts: number;
  /** The least number of ranks that go on without those that are lost. Undefined: all start again. */
  readonly minRanks?: number | undefined;
  readonly times: RendezvousTimes;
  readonly findResume: FindResume;
  /** Tells the user what the run waits for. */
  readonly onNotice: (text: string) => void;
}

const TURN_MS = 50;

/**
 * Starts and ends the generations of a run, on the host that serves the store. The other hosts only come, give signs of
 * life, finish or fail. So the clocks of two hosts are never compared, and no other host decides.
 *
 *   gathering ── all MAX hosts have come, or MIN and the last call is over, with enough ranks ──► running
 *   running   ── a rank failed, a host is lost or waits, and the budget allows it ──► gathering
 *   running   ── a host is lost or waits, and the ranks go on (`minRanks`) ──► running, with other hosts
 *   running   ── finished, stopped, failed for good ──► over
 */
export class Conductor {
  readonly #options: ConductorOptions;
  readonly #stop = new AbortController();
  #gatheringSince = performance.now();
  #lastCallSince: number | undefined;
  #announced = '';
  #done: Promise<void> = Promise.resolve();
  /** The hosts that have gone and come since the generation began. */
  #changes: HostChange[] = [];
  #onHosts: (change: HostChange) => void = () => undefined;

  constructor(options: ConductorOptions) {
    this.#options = options;
  }

  /** Starts to conduct. `onError` is called if the store, or its contents, are broken. */
  start(onError: (error: unknown) => void): void {
    this.#done = this.#run().catch(onError);
  }

  /** Hears of hosts that go and come, also of those that have since the generation began. */
  onHosts(listener: (change: HostChange) => void): void {
    this.#onHosts = listener;
    for (const change of this.#changes) listener(change);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const state = await this.#options.shared.read();
      if (state.phase === 'over') return;
      if (state.phase === 'gathering') await this.#gather(state);
      else await this.#watch(state);
      await delay(TURN_MS, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }

  async #gather(before: RendezvousState): Promise<void> {
    const { shared, minNodes, maxNodes, minRanks = 0, times } = this.#options;
    const lost = new Set(await this.#silent(before.waiting));
    const state = await shared.update((current) =>
      withoutNodes(current.waiting, lost).length < current.waiting.length
        ? { ...current, waiting: withoutNodes(current.waiting, lost) }
        : undefined,
    );
    const { waiting, leader, epoch } = state;
    const now = performance.now();
    // Without the leader there is no generation. Its ranks are about to end, and then it comes too.
    if (!waiting.some(({ id }) => id === leader)) return;
    const ranks = ranksOf(chosenOf(state, this.#options));
    if (waiting.length < minNodes || ranks < minRanks) {
      this.#lastCallSince = undefined;
      this.#announce(waitingText(state, this.#options));
      // Those of the generation before may come after others that have waited for a place.
      if (waiting.length >= maxNodes && epoch < 0) {
        await this.#giveUp(tooFewRanksText(state, this.#options));
      } else if (now - this.#gatheringSince > times.joinTimeoutMs) {
        await this.#giveUp(lateText(state, this.#options));
      }
      return;
    }
    this.#lastCallSince ??= now;
    const leftMs = times.lastCallMs - (now - this.#lastCallSince);
    if (waiting.length < maxNodes && leftMs > 0) {
      const seconds = Math.ceil(times.lastCallMs / 1000);
      this.#announce(
        `${waiting.length} hosts have come; up to ${maxNodes} may within ${seconds} s.`,
      );
      return;
    }
    await this.#begin();
  }

  /** Announces a wait to the user. The same text is not announced twice in a row. */
  #announce(text: string): void {
    if (this.#announced === text) return;
    // A wait that ends before one can read the text is not announced.
    if (this.#announced !== '' || performance.now() - this.#gatheringSince > QUIET_MS) {
      this.#options.onNotice(text);
      this.#announced = text;
    }
  }

  async #begin(): Promise<void> {
    const { shared, findResume } = this.#options;
    const { end } = await shared.read();
    const point = await findResume(end?.kind === 'failed' ? end.failure : undefined);
    this.#changes = [];
    this.#onHosts = () => undefined;
    await shared.update((state) => {
      if (point.kind === 'nowhere') return { ...state, phase: 'over' };
      const nodes = chosenOf(state, this.#options);
      return {
        ...state,
        phase: 'running',
        epoch: state.epoch + 1,
        nodes: nodes.map((node, place) => ({ ...node, admission: state.admissions + place })),
        admissions: state.admissions + nodes.length,
        waiting: state.waiting.filter((node) => !nodes.includes(node)),
        resumeDirectory: point.directory,
        end: undefined,
      };
    });
    this.#lastCallSince = undefined;
    this.#announced = '';
  }

  async #watch(state: RendezvousState): Promise<void> {
    const { store, minRanks } = this.#options;
    // Replacing nothing by nothing changes no value, but returns the value that is there.
    const found = await store.compareSet(endKey(state.epoch), NOTHING, NOTHING);
    // Hosts that wait get no place in a generation that has ended.
    if (found.byteLength > 0) await this.#conclude(decodeEnd(found));
    else await (minRanks === undefined ? this.#endIfOver(state) : this.#exchangeHosts(state));
  }

  /** Ends the generation if it has finished, or if other hosts would make up the next one. */
  async #endIfOver({ epoch, nodes, waiting }: RendezvousState): Promise<void> {
    const { store, maxNodes, times } = this.#options;
    const say = (end: GenerationEnd): Promise<unknown> =>
      store.compareSet(endKey(epoch), undefined, encodeJson(end));
    const finished = await store.add(finishedKey(epoch), 0);
    const [lost] = await this.#silent(nodes);
    const silentWaiting = new Set(await this.#silent(waiting));
    const present = waiting.filter((node) => !silentWaiting.has(node));
    if (finished === nodes.length) await say({ kind: 'finished' });
    else if (lost !== undefined) {
      const reason = `its launcher gave no sign of life for ${times.heartbeatLimitMs} ms`;
      await say({
        kind: 'failed',
        failure: { node: nodeLabel(nodes, nodes.indexOf(lost)), reason },
      });
    } else if (present.length > 0 && nodes.length < maxNodes) {
      await say({ kind: 'joined', nodes: present.map(({ name }) => name) });
    }
  }

  /** Frees the places of hosts that are lost, and gives free places to those that wait, while the ranks go on. */
  async #exchangeHosts({ epoch, nodes, waiting }: RendezvousState): Promise<void> {
    const { shared, maxNodes, times } = this.#options;
    const seated = nodes.filter(({ isLost }) => isLost !== true);
    const silent = new Set(
      (await this.#silent([...seated, ...waiting.filter(({ id }) => !isIn(seated, id))])).map(
        ({ id }) => id,
      ),
    );
    if (silent.size === 0 && waiting.length === 0) return;
    let change: SeatChange | undefined;
    await shared.update((state) => {
      if (state.epoch !== epoch || state.phase !== 'running') return undefined;
      change = changeSeats(state, { silent, maxNodes, silenceMs: times.heartbeatLimitMs });
      return change?.state;
    });
    if (change !== undefined) {
      await Promise.all([...silent].map((id) => this.#options.pulse.forget(id)));
    }
    for (const each of change?.changes ?? []) {
      this.#changes.push(each);
      this.#onHosts(each);
    }
  }

  async #conclude(end: GenerationEnd): Promise<void> {
    const { shared, maxRestarts } = this.#options;
    await shared.update((state) => {
      if (end.kind === 'joined') return { ...state, phase: 'gathering', end };
      if (mayStartAgain(end) && state.restarts < maxRestarts) {
        return { ...state, phase: 'gathering', restarts: state.restarts + 1, end };
      }
      return { ...state, phase: 'over', end };
    });
    this.#gatheringSince = performance.now();
  }

  async #giveUp(reason: string): Promise<void> {
    const { shared } = this.#options;
    const end: GenerationEnd = { kind: 'failed', failure: { node: 'the rendezvous', reason } };
    await shared.update((state) => ({ ...state, phase: 'over', end }));
  }

  async #silent<Node extends Arrival>(nodes: readonly Node[]): Promise<readonly Node[]> {
    const { pulse, id, times } = this.#options;
    const others = nodes.filter((node) => node.id !== id);
    const silences = await Promise.all(others.map((node) => pulse.silentMs(node.id)));
    return others.filter((_, index) => (silences[index] ?? 0) > times.heartbeatLimitMs);
  }
}

/**
 * Returns the hosts of the next generation, in the order of their places: the leader, then those that ask for places, then
 * in the order in which they came. If these have too few ranks, those with more come before others.
 */
function chosenOf(
  { waiting, leader }: RendezvousState,
  { maxNodes, minRanks = 0 }: Pick<ConductorOptions, 'maxNodes' | 'minRanks'>,
): readonly Arrival[] {
  const ordered = waiting.toSorted(
    (a, b) =>
      Number(b.id === leader) - Number(a.id === leader) ||
      // Infinity - Infinity is no number.
      (a.place ?? Infinity) - (b.place ?? Infinity) ||
      0,
  );
  const first = ordered.slice(0, maxNodes);
  if (ranksOf(first) >= minRanks) return first;
  const largest = ordered.toSorted(
    (a, b) => Number(b.id === leader) - Number(a.id === leader) || b.ranks - a.ranks,
  );
  const chosen = new Set(largest.slice(0, maxNodes));
  return ordered.filter((node) => chosen.has(node));
}

type Needed = Pick<ConductorOptions, 'minNodes' | 'maxNodes' | 'minRanks' | 'times'>;

const ranksOf = (nodes: readonly Arrival[]): number =>
  nodes.reduce((sum, { ranks }) => sum + ranks, 0);

/** Says how many of those that are needed have come. */
function comeText({ waiting }: RendezvousState, { minNodes, minRanks = 0 }: Needed): string {
  return waiting.length < minNodes
    ? `${waiting.length} of ${minNodes} hosts`
    : `${ranksOf(waiting)} of ${minRanks} ranks`;
}

function lateText(state: RendezvousState, needed: Needed): string {
  return `only ${comeText(state, needed)} came within ${needed.times.joinTimeoutMs} ms`;
}

function tooFewRanksText(state: RendezvousState, needed: Needed): string {
  const { maxNodes, minRanks } = needed;
  const ranks = ranksOf(chosenOf(state, needed));
  return `the ${maxNodes} hosts of the run have ${ranks} ranks, and --min-nproc asks for ${minRanks}`;
}

/** Says why the last generation ended, which of its hosts have not come again, and how long the run waits for them. */
function waitingText(state: RendezvousState, needed: Needed): string {
  const { nodes, waiting, end } = state;
  const come = new Set(waiting.map(({ id }) => id));
  const missing = nodes.flatMap(({ id }, place) => (come.has(id) ? [] : [nodeLabel(nodes, place)]));
  const whom = missing.length === 0 ? 'hosts' : `${missing.join(', ')} or others in their place`;
  const seconds = Math.ceil(needed.times.joinTimeoutMs / 1000);
  const why = end?.kind === 'failed' ? `${describeFailure(end.failure).replace(/\.$/, '')}. ` : '';
  return `${why}Waiting up to ${seconds} s for ${whom}: ${comeText(state, needed)} have come.`;
}

/** The user is told only of waits that take longer than this. */
const QUIET_MS = 1000;
const NOTHING = new Uint8Array(0);

function isIn(nodes: readonly Arrival[], id: string): boolean {
  return nodes.some((node) => node.id === id);
}

function withoutNodes(nodes: readonly Arrival[], lost: ReadonlySet<Arrival>): readonly Arrival[] {
  const ids = new Set([...lost].map(({ id }) => id));
  return nodes.filter(({ id }) => !ids.has(id));
}
