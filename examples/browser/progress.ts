import { type Checkpoint, CheckpointError, type JsonValue } from 'shardwise/browser';
import { isSize, type SizeName } from './settings.ts';

/** What a checkpoint of this page keeps beside the model and its optimizer. */
export interface Progress {
  readonly text: string;
  readonly size: SizeName;
  /** Updates that the run was to do in all. */
  readonly steps: number;
  /** States of the generators: of windows of the text, and of samples. */
  readonly places: JsonValue;
  readonly draws: JsonValue;
}

/** Throws CheckpointError for a checkpoint of another script. */
export function progressOf({ directory, extra }: Checkpoint): Progress {
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
