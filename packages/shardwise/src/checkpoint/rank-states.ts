import { wholeChunk } from '@shardwise/core/extend';
import type { HeldChunk } from './held-chunk.ts';
import { splitState } from './split-state.ts';
import type { StatePath, StoredState } from './state-file.ts';
import type { Statefuls } from './stateful.ts';

/** What a rank saves of its states. */
export interface RankStates {
  readonly states: Readonly<Record<string, StoredState>>;
  readonly heldChunks: readonly HeldChunk[];
}

/** Collects the states of this rank. Throws CheckpointError for a state that cannot be written. */
export async function rankStates(statefuls: Statefuls, rank: number): Promise<RankStates> {
  const states: Record<string, StoredState> = {};
  const heldChunks: HeldChunk[] = [];
  for (const [owner, stateful] of Object.entries(statefuls)) {
    const { value, tensors } = splitState(owner, await stateful.stateDict());
    for (const { path, array } of tensors) {
      const { dtype, shape, bytes } = array;
      const name = tensorName(rank, owner, path);
      heldChunks.push({ name, dtype, shape, ...wholeChunk(shape), read: async () => bytes });
    }
    const names = tensors.map(({ path }) => ({ path, name: tensorName(rank, owner, path) }));
    states[owner] = { value, tensors: names };
  }
  return { states, heldChunks };
}

/** Returns the name of a tensor of a state. Its components are encoded, so that names with a slash stay distinct. */
function tensorName(rank: number, owner: string, path: StatePath): string {
  return [`rank-${rank}`, owner, ...path].map(encodeURIComponent).join('/');
}
