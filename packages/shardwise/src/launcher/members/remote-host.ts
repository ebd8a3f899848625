import type { Store } from '@shardwise/core/extend';
import { reasonText } from '@shardwise/core/spec';
import { BatchSender, type BatchRoute, receiveBatches } from '../../relay/batches.ts';
import { GRACE_MS } from '../launch.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import { lostBy, type RankEnd, type RankHandle, type RankOutcome } from '../ranks/rank-handle.ts';
import { type FromHost, parseFromHost, type ToHost } from './host-message.ts';
import type { MemberStart, StartMember } from './member-start.ts';

/** Where two launchers talk, from one admission of a host to its end. */
export interface HostLink {
  readonly store: Store;
  readonly admission: number;
}

export const toHostRoute = ({ store, admission }: HostLink): BatchRoute => ({
  store,
  prefix: `members/${admission}/to`,
});
export const fromHostRoute = ({ store, admission }: HostLink): BatchRoute => ({
  store,
  prefix: `members/${admission}/from`,
});

/** Messages between launchers do not wait for others. */
export const NO_DELAY_MS = 0;

/** The ranks of another host, as the launcher that leads has them. */
export class RemoteHost {
  readonly #sender: BatchSender;
  readonly #end = new AbortController();
  readonly #ranks = new Map<number, RemoteRank>();
  readonly #received: Promise<void>;
  readonly #onBroken: (reason: string) => void;
  /** Why its ranks were given up. */
  #lost: string | undefined;

  /** `onBroken` is called when nothing more can be told to the host, or heard from it. It is to call `lose`. */
  constructor(link: HostLink, onBroken: (reason: string) => void) {
    this.#onBroken = onBroken;
    this.#sender = new BatchSender(toHostRoute(link), NO_DELAY_MS);
    void this.#sender.failed.then((error) =>
      this.#break(`the store has refused a message to it: ${reasonText(error)}`),
    );
    this.#received = this.#receive(link);
  }

  /** Returns what starts a rank there. */
  starts(rank: number): StartMember {
    return (start) => {
      const started = new RemoteRank(rank, start, (message) => this.#sender.send(message));
      this.#ranks.set(rank, started);
      const lost = this.#lost;
      // Whoever starts a rank has its handle before it ends.
      if (lost !== undefined) queueMicrotask(() => started.giveUp(lost));
      return started;
    };
  }

  /**
   * Gives its ranks up. If the host is only cut off, it hears the reason when it can. `isFinal`: it is to leave the run.
   * Otherwise it may come anew.
   */
  lose(reason: string, isFinal = false): Promise<void> {
    this.#lost = reason;
    this.#sender.send({ kind: 'dismiss', reason, isFinal } satisfies ToHost);
    for (const rank of this.#ranks.values()) rank.giveUp(reason);
    return this.close();
  }

  async close(): Promise<void> {
    this.#end.abort();
    await this.#sender.close();
    await this.#received;
  }

  /** Deletes from the store what a host that is lost has not read. */
  discard(): Promise<void> {
    return this.#sender.discard();
  }

  async #receive(link: HostLink): Promise<void> {
    const end = await receiveBatches(fromHostRoute(link), this.#end.signal, (value) => {
      const message = parseFromHost(value);
      if (message === undefined) return;
      // A host may only speak of ranks that it was asked to start. One that was ended may speak when it was given up.
      const rank = this.#ranks.get(message.rank);
      if (rank?.restarts === message.restarts) rank.hear(message.told);
    });
    if (end === 'broken') this.#break('it sent what is no batch of messages');
  }

  #break(reason: string): void {
    if (!this.#end.signal.aborted) this.#onBroken(reason);
  }
}

class RemoteRank implements RankHandle {
  readonly outcome: Promise<RankOutcome>;
  readonly #rank: number;
  readonly #start: MemberStart;
  readonly #send: (message: ToHost) => void;
  readonly #closed = Promise.withResolvers<void>();
  #end: RankEnd | undefined;

  constructor(rank: number, start: MemberStart, send: (message: ToHost) => void) {
    this.#rank = rank;
    this.#start = start;
    this.#send = send;
    this.outcome = this.#run();
    send({ kind: 'start', rank, restarts: start.restarts });
  }

  get restarts(): number {
    return this.#start.restarts;
  }

  order(order: LauncherOrder): void {
    this.#send({ kind: 'order', rank: this.#rank, order });
  }

  async terminate(): Promise<void> {
    this.#send({ kind: 'terminate', rank: this.#rank });
    // A host that does not answer must not hold up the end of the run.
    const timer = setTimeout(() => this.giveUp('its host does not answer'), GRACE_MS);
    await this.outcome;
    clearTimeout(timer);
  }

  hear(told: FromHost['told']): void {
    const { onMessage, onMember, onDoomed, onEnd } = this.#start;
    switch (told.kind) {
      case 'message':
        onMessage(told.message);
        return;
      case 'member':
        onMember(told.message);
        return;
      case 'doomed':
        onDoomed(told.reason);
        return;
      case 'end':
        if (this.#end !== undefined) return;
        this.#end = told.end;
        onEnd(told.end);
        return;
      case 'closed':
        this.giveUp('its host ended it without a reason');
        return;
      default:
        told satisfies never;
    }
  }

  giveUp(reason: string): void {
    if (this.#end === undefined) {
      this.#end = lostBy(reason);
      this.#start.onEnd(this.#end);
    }
    this.#closed.resolve();
  }

  async #run(): Promise<RankOutcome> {
    await this.#closed.promise;
    const end = this.#end ?? { exitCode: 1, error: undefined, terminated: false };
    // The log of the rank is on its host.
    return { rank: this.#rank, ...end, logPath: '', lastLines: [] };
  }
}
