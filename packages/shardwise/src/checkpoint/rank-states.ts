import { extentOfWhole } from '@shardwise/core/extend';
import type { Holding } from './holding.ts';
import { splitState } from './split-state.ts';
import type { StatePath, StoredState } from './state-file.ts';
import type { Statefuls } from './stateful.ts';

/** What a rank saves of the states that it gives. */
export interface RankStates {
  readonly states: Readonly<Record<string, StoredState>>;
  readonly holdings: readonly Holding[];
}

/** Throws CheckpointError for a state that cannot be written. */
export async function rankStates(statefuls: Statefuls, rank: number): Promise<RankStates> {
  const states: Record<string, StoredState> = {};
  const holdings: Holding[] = [];
  for (const [owner, stateful] of Object.entries(statefuls)) {
    const { value, tensors } = splitState(owner, await stateful.stateDict());
    for (const { path, array } of tensors) {
      const { dtype, shape, bytes } = array;
      const name = tensorName(rank, owner, path);
      for (const region of extentOfWhole(shape).regions) {
        holdings.push({ name, dtype, shape, ...region, read: async () => bytes });
      }
    }
    const names = tensors.map(({ path }) => ({ path, name: tensorName(rank, owner, path) }));
    states[owner] = { value, tensors: names };
  }
  return { states, holdings };
}

/** Names that hold the separator do not run together. */
function tensorName(rank: number, owner: string, path: StatePath): string {
  return [`rank-${rank}`, owner, ...path].map(encodeURIComponent).join('/');
}
