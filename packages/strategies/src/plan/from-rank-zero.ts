import {
  broadcast,
  type ProcessGroup,
  randomState,
  setRandomState,
  type Tensor,
  withoutValues,
} from '@shardwise/core/extend';

/** Returns the value of the rank that is first along each of the axes. Adds collectives to the graph. Shape: N -> N. */
export function ofRankZero(tensor: Tensor, axes: readonly string[]): Tensor {
  return withoutValues(() => axes.reduce((x, axis) => broadcast(x, axis), tensor));
}

/** Gives all ranks rank 0's random keys, because random values that all ranks have must be equal. */
export async function broadcastKeys(group: ProcessGroup): Promise<void> {
  const state = randomState();
  const keys = Int32Array.of(state.seed, state.counter);
  await group.broadcast({ bytes: new Uint8Array(keys.buffer), dtype: 'i32' }, 0);
  const [seed = 0, counter = 0] = keys;
  setRandomState({ ...state, seed, counter });
}
