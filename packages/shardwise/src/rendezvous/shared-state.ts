import type { Store } from '@shardwise/core/extend';
import { decodeState, encodeJson, type RendezvousState } from './rendezvous-state.ts';

const KEY = 'rendezvous/state';

/** The state that all hosts see. */
export class SharedState {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Sets the first state. The host that serves the store must call this before anything else. */
  async create(state: RendezvousState): Promise<void> {
    await this.#store.set(KEY, encodeJson(state));
  }

  async read(timeoutMs?: number): Promise<RendezvousState> {
    return decodeState(await this.#store.get(KEY, timeoutMs === undefined ? {} : { timeoutMs }));
  }

  /**
   * Changes the state and returns it. `change` is called again if another host was faster. It returns undefined to
   * leave the state as it is.
   */
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
