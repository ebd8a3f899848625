import { type HostArray, requireNoMore } from '@shardwise/core/extend';
import { requirePath, requireStateful } from './check-arguments.ts';
import { splitState } from './split-state.ts';
import type { Stateful } from './stateful.ts';
import { writeTensorFile } from './tensor-file.ts';

/** The key of the file's metadata that contains everything but the tensors. */
export const stateKey = 'shardwise.state';

/**
 * Writes the state of an optimizer, a schedule, or any other object with stateDict() to one file, which
 * loadState reads. The file is written completely or not at all. If ranks share out states, all of them must
 * call it. Throws CheckpointError, and ConfigError for what has no state or for more than one object.
 */
export async function saveState(
  path: string,
  stateful: Stateful,
  ...more: readonly never[]
): Promise<void> {
  requirePath('saveState', path);
  requireStateful('saveState', stateful);
  requireNoMore('saveState', 2, more);
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
