import { checkOptions, type ModelFolder, option, type OptionRules } from '@shardwise/core/extend';
import { pretrainedFolderAt } from '@shardwise/core/node';

const placeRules: OptionRules<{ readonly place: string | ModelFolder }> = {
  place: option.required({
    fits: (value): value is string | ModelFolder =>
      typeof value === 'string' ? value !== '' : typeof value === 'object' && value !== null,
    expected: 'a path, an address or a folder',
  }),
};

/** The folder that the argument of a loader says: a path, an address, the name of a repository of the hub, or the folder itself. `loader` is its name. */
export function folderOf(loader: string, place: string | ModelFolder): ModelFolder {
  checkOptions(loader, { place }, placeRules);
  return typeof place === 'string' ? pretrainedFolderAt(place) : place;
}
