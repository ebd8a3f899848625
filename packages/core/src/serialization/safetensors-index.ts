import { limitedText, record, SavedDataError } from '../saved-data.ts';
import { CheckpointError } from '../spec/errors.ts';

/** The file of a shard by the name of a tensor. */
export type WeightMap = Readonly<Record<string, string>>;

const MAX_NAME_LENGTH = 4096;
const checkWeightMap = record(
  // A file beside the index. A path could lead out of the folder.
  limitedText(MAX_NAME_LENGTH, /^[^/\\\0]+$/),
  MAX_NAME_LENGTH,
);
/** Other entries, such as the metadata, are not needed. */
const checkIndex = record((value) => value, MAX_NAME_LENGTH);

/** Whether a file of this name lists the shards of a model. */
export function isIndexName(name: string): boolean {
  return name.endsWith('.index.json');
}

/**
 * Reads the index of a model in several files, such as `model.safetensors.index.json`. Throws a CheckpointError that
 * names `path` for anything else.
 */
export function parseWeightMap(json: string, path: string): WeightMap {
  const refuse = (found: string, cause: unknown): CheckpointError =>
    new CheckpointError(
      {
        asked: `Reading the index ${path}`,
        found,
        todo: 'Give an index that has the file of each tensor in "weight_map"',
      },
      { path },
      { cause },
    );
  try {
    const { weight_map: map } = checkIndex(JSON.parse(json), '');
    return checkWeightMap(map, 'weight_map');
  } catch (cause) {
    if (cause instanceof SyntaxError) throw refuse('it is no JSON', cause);
    if (!(cause instanceof SavedDataError)) throw cause;
    throw refuse(`${cause.path || 'the file'}: ${cause.message}`, cause);
  }
}
