import { CheckpointError, type checkpoints } from 'shardwise/browser';
import { isSize, type SizeName } from './settings.ts';

/** What a checkpoint of this page contains besides the model and its optimizer. */
export interface Progress {
  readonly text: string;
  readonly size: SizeName;
  /** The number of updates that the run was to do in total. */
  readonly steps: number;
  /** The state of the generator that chooses windows of the text. `draws` is that of the generator for samples. */
  readonly places: checkpoints.JsonValue;
  readonly draws: checkpoints.JsonValue;
}

/** Reads the progress. Throws CheckpointError for a checkpoint of another script. */
export function progressOf({ directory, extra }: checkpoints.Checkpoint): Progress {
  if (typeof extra === 'object' && extra !== null && !Array.isArray(extra)) {
    const { text, size, steps, places, draws } = extra;
    const hasStreams = places !== undefined && draws !== undefined;
    if (hasStreams && typeof text === 'string' && isSize(size) && typeof steps === 'number') {
      return { text, size, steps, places, draws };
    }
  }
  throw new CheckpointError(
    {
      asked: `to go on from ${directory}`,
      found: 'a checkpoint that this page did not save',
      todo: 'Pick one that was downloaded from this page',
    },
    { directory },
  );
}
