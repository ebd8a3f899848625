import { singleGroup } from '@shardwise/collectives';
import {
  checkOptions,
  CheckpointError,
  type HostArray,
  type LoadOptions,
  type LoadReport,
  loadRules,
  option,
  type OptionRules,
  type ProcessGroup,
  ShardwiseError,
  stateMismatch,
} from '@shardwise/core/extend';
import { requireStatefuls } from '../format/check-arguments.ts';
import { type JoinedState, joinState } from '../format/state-tree.ts';
import { requireCheckpoint, type Checkpoint } from './open-checkpoint.ts';
import { damaged } from './chunk-files.ts';
import type { StatePath, StoredState } from '../format/index-file.ts';
import type { Stateful, Statefuls } from '../format/stateful.ts';

/** Options of `loadStates`. */
export interface LoadStatesOptions extends LoadOptions {
  /** The ranks that load. Default: this rank alone. */
  readonly group?: Pick<ProcessGroup, 'rank' | 'size'>;
}

const loadStatesRules: OptionRules<LoadStatesOptions> = {
  ...loadRules,
  group: option.object('a process group'),
};

/**
 * Gives each of `states` the data that was saved under its name. If as many ranks load as have saved, each gets
 * its own. Any number of ranks can load data that was the same on all ranks. Before anything is loaded, it
 * throws a CheckpointError that lists missing and unexpected names (if strict) and states that belong to other
 * ranks together.
 */
export async function loadStates(
  checkpoint: Checkpoint,
  states: Statefuls,
  options: LoadStatesOptions = {},
): Promise<LoadReport> {
  requireCheckpoint('loadStates', checkpoint);
  checkOptions('loadStates', options, loadStatesRules);
  requireStatefuls('loadStates', states);
  const { strict = true, group = singleGroup() } = options;
  const { worldSize, rankStates } = checkpoint;
  const isOwn = worldSize === group.size;
  const saved = rankStates[isOwn ? group.rank : 0] ?? {};
  const missing = Object.keys(states).filter((name) => !Object.hasOwn(saved, name));
  const unexpected = Object.keys(saved).filter((name) => !Object.hasOwn(states, name));
  const different = Object.keys(states)
    .filter((name) => Object.hasOwn(saved, name) && !isOwn && !isSame(checkpoint, name))
    .map((name) => `${name} (each of ${worldSize} ranks saved its own; there are ${group.size})`);
  if (different.length > 0 || (strict && missing.length + unexpected.length > 0)) {
    throw stateMismatch(
      `to load the states of ${checkpoint.directory}`,
      strict ? { missing, unexpected, different } : { different },
      'Give what was saved under the same names, on as many ranks; what is left out of both begins anew, with { strict: false }',
    );
  }
  const found: (readonly [name: string, stateful: Stateful, state: JoinedState])[] = [];
  for (const [name, stateful] of Object.entries(states)) {
    const { [name]: stored } = saved;
    if (missing.includes(name) || stored === undefined) continue;
    found.push([name, stateful, await read(checkpoint, stored)]);
  }
  for (const [name, stateful, state] of found) await load(checkpoint, name, stateful, state);
  return { missing, unexpected };
}

async function read(
  { states, directory }: Checkpoint,
  { value, tensors }: StoredState,
): Promise<JoinedState> {
  const arrays: { path: StatePath; array: HostArray }[] = [];
  for (const { path, name } of tensors) arrays.push({ path, array: await states.read(name) });
  const joined = joinState(value, arrays);
  if (joined === undefined) throw damaged(directory, 'a state lacks the place of a tensor');
  return joined;
}

async function load(
  { directory }: Checkpoint,
  name: string,
  stateful: Stateful,
  state: JoinedState,
): Promise<void> {
  try {
    await stateful.loadStateDict(state);
  } catch (cause) {
    if (ShardwiseError.isInstance(cause)) throw cause;
    throw new CheckpointError(
      {
        asked: `to load the state of "${name}" of ${directory}`,
        found: cause instanceof Error ? cause.message : String(cause),
        todo: 'Load it into what it was saved from, of the same options',
      },
      { name },
      { cause },
    );
  }
}

/** Whether all ranks saved the same state. */
function isSame({ rankStates, states }: Checkpoint, name: string): boolean {
  const texts = rankStates.map((saved) => {
    const { value = null, tensors = [] } = saved[name] ?? {};
    const contents = tensors.map(({ path, name: tensorName }) => {
      const { dtype, shape, chunks = [] } = states.get(tensorName) ?? {};
      return { path, dtype, shape, checksums: chunks.flatMap(({ checksums }) => checksums) };
    });
    return JSON.stringify({ value, contents });
  });
  return new Set(texts).size === 1;
}
