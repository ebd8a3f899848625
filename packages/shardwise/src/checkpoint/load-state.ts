import { CheckpointError, requireNoMore } from '@shardwise/core/extend';
import { requirePath, requireStateful } from './check-arguments.ts';
import { type JoinedState, joinState } from './join-state.ts';
import { stateKey } from './save-state.ts';
import { type StoredState, storedStateSchema } from './state-file.ts';
import type { Stateful } from './stateful.ts';
import { readTensorFile } from './tensor-file.ts';

/**
 * Loads a file of saveState into an optimizer, a schedule, or any other object with loadStateDict(). Throws
 * ConfigError for what has no state or for more than one object, CheckpointError for another file, and the errors of
 * loadStateDict for a state that does not fit.
 */
export async function loadState(
  path: string,
  stateful: Stateful,
  ...more: readonly never[]
): Promise<void> {
  requirePath('loadState', path);
  requireStateful('loadState', stateful);
  requireNoMore('loadState', 2, more);
  await stateful.loadStateDict(await readState(path));
}

async function readState(path: string): Promise<JoinedState> {
  const { tensors, metadata } = await readTensorFile(path);
  const { value, tensors: places } = parse(path, metadata[stateKey]);
  const arrays = places.map(({ path: place, name }) => {
    const { [name]: array } = tensors;
    if (array === undefined) throw noState(path, `no tensor '${name}'`);
    return { path: place, array };
  });
  const joined = joinState(value, arrays);
  if (joined === undefined) throw noState(path, 'tensors without a place in it');
  return joined;
}

function parse(path: string, text: string | undefined): StoredState {
  if (text === undefined) throw noState(path, 'tensors alone');
  try {
    return storedStateSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw noState(path, 'metadata that say nothing of a state', cause);
  }
}

function noState(path: string, found: string, cause?: unknown): CheckpointError {
  return new CheckpointError(
    {
      asked: `Loading a state of ${path}`,
      found,
      todo: 'Give a file of saveState(); tensors alone are read by loadTensors()',
    },
    { path },
    cause === undefined ? {} : { cause },
  );
}
