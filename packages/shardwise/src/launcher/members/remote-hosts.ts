import { setTimeout as delay } from 'node:timers/promises';
import type { Store } from '@shardwise/core/extend';
import {
  firstRankOf,
  type Generation,
  type GenerationNode,
  type HostChange,
  nodeLabel,
} from '../../rendezvous/generation.ts';
import { lostBy } from '../ranks/rank-handle.ts';
import type { LostRanks } from './membership-change.ts';
import type { SlotPlace } from './member-slot.ts';
import { RemoteHost } from './remote-host.ts';

export interface HostListeners {
  /** A host has come, whose ranks can be started. */
  readonly onCame: (slots: readonly SlotPlace[]) => void;
  /** The host at a place is lost, for this reason. */
  readonly onLost: (host: number, reason: string) => void;
  readonly onNotice: (text: string) => void;
}

/** How long a host waits that comes to a place that was given up. It doubles each time, up to a limit. */
const BACK_OFF_MS = 10_000;
const MAX_BACK_OFF_MS = 600_000;
/** A host that was halted for longer looks by itself whether it has a place. */
const READ_MS = 10_000;

/** The other hosts of a generation whose ranks go on without those that are lost. */
export class RemoteHosts {
  readonly #store: Store;
  readonly #listeners: HostListeners;
  readonly #nodes: GenerationNode[];
  readonly #hosts = new Map<number, RemoteHost>();
  readonly #closing: Promise<void>[] = [];
  readonly #end = new AbortController();
  /** How often places were given up since ranks there last made an update. */
  readonly #givenUp = new Map<number, number>();
  /** The hosts that have come, and whose ranks do not start yet. */
  readonly #waiting = new Set<NodeJS.Timeout>();

  constructor(store: Store, { nodes }: Generation, listeners: HostListeners) {
    this.#store = store;
    this.#nodes = [...nodes];
    this.#listeners = listeners;
  }

  /** The ranks of the hosts that are there when the generation begins, but for this one. */
  begin(own: number): readonly SlotPlace[] {
    return this.#nodes.flatMap((node, place) =>
      place === own || node.isLost === true ? [] : this.#open(place, node),
    );
  }

  /** The ranks of hosts that were lost before this launcher learned of the generation. They are not started. */
  lostAtFirst(): readonly LostRanks[] {
    return this.#nodes.flatMap(({ isLost, ranks }, place) => {
      if (isLost !== true) return [];
      const fate = `${nodeLabel(this.#nodes, place)} was lost before they were started`;
      return [{ numbers: this.#numbers(place, ranks), end: lostBy(fate) }];
    });
  }

  /** Changes that were made before this launcher learned of the generation may be told again, and change nothing. */
  change(change: HostChange): void {
    const { place } = change;
    const known = this.#admission(place);
    if (change.kind === 'lost') {
      const host = this.#hosts.get(place);
      if (host === undefined || change.admission !== known) return;
      this.#hosts.delete(place);
      const reason = `${nodeLabel(this.#nodes, place)} was lost: ${change.reason}`;
      this.#listeners.onLost(place, reason);
      this.#forget(host, host.lose(change.reason));
      return;
    }
    const { node } = change;
    if (node.admission <= known) return;
    this.#nodes[place] = node;
    this.#welcome(place, this.#open(place, node));
  }

  /**
   * Has a host leave, because none of its ranks is started again. Its place is free for another one when it gives no more
   * signs of life. Does nothing if no other host has the place.
   */
  giveUp(place: number, why: string): void {
    const host = this.#hosts.get(place);
    if (host === undefined) return;
    this.#hosts.delete(place);
    this.#givenUp.set(place, (this.#givenUp.get(place) ?? 0) + 1);
    const reason = `none of its ranks is started again (${why})`;
    this.#listeners.onNotice(`${nodeLabel(this.#nodes, place)} gives up its place: ${reason}`);
    this.#forget(host, host.lose(reason, true));
  }

  /** Notes that the ranks of a place make updates. */
  forgive(place: number): void {
    this.#givenUp.delete(place);
  }

  /** Has the ranks of a host start, or lets it wait, because those of its place have failed again and again. */
  #welcome(place: number, slots: readonly SlotPlace[]): void {
    const { onCame, onNotice } = this.#listeners;
    const times = this.#givenUp.get(place) ?? 0;
    if (times === 0) {
      onCame(slots);
      return;
    }
    const host = this.#hosts.get(place);
    const waitMs = Math.min(BACK_OFF_MS * 2 ** (times - 1), MAX_BACK_OFF_MS);
    onNotice(
      `${nodeLabel(this.#nodes, place)} has come, and starts its ranks in ${waitMs / 1000} s, because its place was given up ${times === 1 ? 'once' : `${times} times`}.`,
    );
    const timer = setTimeout(() => {
      this.#waiting.delete(timer);
      if (this.#hosts.get(place) === host) onCame(slots);
    }, waitMs);
    this.#waiting.add(timer);
  }

  async close(): Promise<void> {
    this.#end.abort();
    for (const timer of this.#waiting) clearTimeout(timer);
    for (const host of this.#hosts.values()) this.#closing.push(host.close());
    await Promise.all(this.#closing);
  }

  /** Leaves nothing of a host in the store once it has had the time to read why it is lost. */
  #forget(host: RemoteHost, lost: Promise<void>): void {
    const { signal } = this.#end;
    const forget = async (): Promise<void> => {
      await lost;
      await delay(READ_MS, undefined, { signal }).catch(() => undefined);
      await host.discard();
    };
    this.#closing.push(forget());
  }

  /** The last admission of a host to a place. It is -1 if the place is new. */
  #admission(place: number): number {
    const node = this.#nodes[place];
    return node === undefined ? -1 : (node.admission ?? place);
  }

  #open(place: number, { ranks }: GenerationNode): readonly SlotPlace[] {
    const admission = this.#admission(place);
    // Its ranks are lost at once, and it comes anew when it hears of that.
    const host = new RemoteHost({ store: this.#store, admission }, (reason) => {
      if (this.#hosts.get(place) === host) this.change({ kind: 'lost', place, admission, reason });
    });
    this.#hosts.set(place, host);
    return this.#numbers(place, ranks).map((number) => ({
      number,
      host: place,
      start: host.starts(number),
    }));
  }

  #numbers(place: number, ranks: number): readonly number[] {
    const first = firstRankOf({ nodes: this.#nodes }, place);
    return Array.from({ length: ranks }, (_, local) => first + local);
  }
}
