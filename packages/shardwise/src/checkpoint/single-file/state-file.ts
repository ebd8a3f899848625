import { CheckpointError, type HostArray, requireNoMore } from '@shardwise/core/extend';
import { requirePath, requireStateful } from '../format/check-arguments.ts';
import { type JoinedState, joinState, splitState } from '../format/state-tree.ts';
import type { Stateful } from '../format/stateful.ts';
import { readTensorFile, writeTensorFile } from './safetensors-file.ts';
import { type StoredState, storedStateSchema } from '../format/index-file.ts';

/** The key of the file's metadata that contains everything but the tensors. */
const stateKey = 'shardwise.state';

/**
 * Writes the state of an optimizer, a schedule, or any other object with stateDict() to one file, which
 * loadStateFile reads. The file is written completely or not at all. If states are sharded over ranks, all of them must
 * call it. Throws CheckpointError, and ConfigError for what has no state or for more than one object.
 */
export async function saveStateFile(
  path: string,
  stateful: Stateful,
  ...more: readonly never[]
): Promise<void> {
  requirePath('saveStateFile', path);
  requireStateful('saveStateFile', stateful);
  requireNoMore('saveStateFile', 2, more);
  const { value, tensors } = splitState(path, await stateful.stateDict());
  const named = tensors.map(({ path: place, array }) => {
    return { path: place, array, name: place.map(String).map(encodeURIComponent).join('/') };
  });
  const arrays = Object.fromEntries(
    named.map(({ name, array }): [string, HostArray] => [name, array]),
  );
  const places = named.map(({ path: place, name }) => ({ path: place, name }));
  const metadata = { [stateKey]: JSON.stringify({ value, tensors: places }) };
  await writeTensorFile(path, { tensors: arrays, metadata });
}

/**
 * Loads a file of saveStateFile into an optimizer, a schedule, or any other object with loadStateDict(). Throws
 * ConfigError for what has no state or for more than one object, CheckpointError for another file, and the errors of
 * loadStateDict for a state that does not fit.
 */
export async function loadStateFile(
  path: string,
  stateful: Stateful,
  ...more: readonly never[]
): Promise<void> {
  requirePath('loadStateFile', path);
  requireStateful('loadStateFile', stateful);
  requireNoMore('loadStateFile', 2, more);
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
      todo: 'Give a file of saveStateFile(); tensors alone are read by loadTensorFile()',
    },
    { path },
    cause === undefined ? {} : { cause },
  );
}
