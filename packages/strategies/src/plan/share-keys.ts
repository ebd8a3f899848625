import { type ProcessGroup, randomState, setRandomState } from '@shardwise/core/extend';

/** Gives all ranks rank 0's random keys, because random values that all ranks have must be equal. */
export async function shareKeys(group: ProcessGroup): Promise<void> {
  const state = randomState();
  const keys = Int32Array.of(state.seed, state.counter);
  await group.broadcast({ bytes: new Uint8Array(keys.buffer), dtype: 'i32' }, 0);
  const [seed = 0, counter = 0] = keys;
  setRandomState({ ...state, seed, counter });
}
