import type { Store } from '@shardwise/core/extend';
import {
  firstRankOf,
  type Generation,
  type GenerationNode,
  type HostChange,
  nodeLabel,
} from '../../rendezvous/generation.ts';
import type { LostRanks } from './membership-change.ts';
import type { SlotPlace } from './member-slot.ts';
import { RemoteHost } from './remote-host.ts';

export interface HostListeners {
  /** A host has come, whose ranks can be started. */
  readonly onCame: (slots: readonly SlotPlace[]) => void;
  /** The host at a place is lost, for this reason. */
  readonly onLost: (host: number, reason: string) => void;
}

/** The other hosts of a generation whose ranks go on without those that are lost. */
export class RemoteHosts {
  readonly #store: Store;
  readonly #listeners: HostListeners;
  readonly #nodes: GenerationNode[];
  readonly #hosts = new Map<number, RemoteHost>();
  readonly #closing: Promise<void>[] = [];

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
      const end = { exitCode: 1, error: undefined, fate, terminated: false };
      return [{ numbers: this.#numbers(place, ranks), end }];
    });
  }

  change(change: HostChange): void {
    const { place } = change;
    if (change.kind === 'lost') {
      const host = this.#hosts.get(place);
      // It was lost before this launcher learned of the generation.
      if (host === undefined) return;
      this.#hosts.delete(place);
      const reason = `${nodeLabel(this.#nodes, place)} was lost: ${change.reason}`;
      this.#listeners.onLost(place, reason);
      this.#closing.push(host.lose(change.reason));
      return;
    }
    const { node } = change;
    const isKnown = this.#hosts.has(place) && this.#nodes[place]?.admission === node.admission;
    if (isKnown) return;
    this.#nodes[place] = node;
    this.#listeners.onCame(this.#open(place, node));
  }

  async close(): Promise<void> {
    for (const host of this.#hosts.values()) this.#closing.push(host.close());
    await Promise.all(this.#closing);
  }

  #open(place: number, { ranks, admission = place }: GenerationNode): readonly SlotPlace[] {
    const host = new RemoteHost({ store: this.#store, admission });
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
