import type { Store } from '@shardwise/core/extend';
import { decodeState, encodeJson, type RendezvousState } from './rendezvous-state.ts';

const KEY = 'rendezvous/state';

/** The state that all hosts see. */
export class SharedState {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** To be called by the host that serves the store, before all others. */
  async create(state: RendezvousState): Promise<void> {
    await this.#store.set(KEY, encodeJson(state));
  }

  async read(timeoutMs?: number): Promise<RendezvousState> {
    return decodeState(await this.#store.get(KEY, timeoutMs === undefined ? {} : { timeoutMs }));
  }

  /** `change` is asked again where another host was faster; undefined leaves the state as it is. */
  async update(
    change: (state: RendezvousState) => RendezvousState | undefined,
  ): Promise<RendezvousState> {
    let before = await this.#store.get(KEY);
    for (;;) {
      const state = decodeState(before);
      const changed = change(state);
      if (changed === undefined) return state;
      const desired = encodeJson(changed);
      const after = await this.#store.compareSet(KEY, before, desired);
      if (Buffer.compare(after, desired) === 0) return changed;
      before = after;
    }
  }
}
