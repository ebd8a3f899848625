import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { findCheckpoint } from './find-checkpoint.ts';
import { damaged } from './chunk-files.ts';
import {
  fileName,
  type JsonValue,
  type SectionName,
  sectionNames,
  type StoredGroup,
  type StoredState,
} from './state-file.ts';
import { StoredTensors } from './stored-tensors.ts';

/** A checkpoint on the disk; loadModel, loadOptimizer and loadStates read it. */
export interface Checkpoint {
  /** The folder that it is in. */
  readonly directory: string;
  readonly step: number;
  /** Ranks that saved it. */
  readonly worldSize: number;
  readonly model: StoredTensors;
  /** Other names of shared parameters, and under which they are stored. */
  readonly aliases: ReadonlyMap<string, string>;
  /** Under `parameter name.state name`. */
  readonly optimizer: StoredTensors;
  readonly optimizerGroups: readonly StoredGroup[];
  readonly extra: JsonValue;
  /** What each rank gave as `rankExtra`. */
  readonly rankExtras: readonly JsonValue[];
  /** What each rank gave as `states`, and the tensors in it. */
  readonly rankStates: readonly Readonly<Record<string, StoredState>>[];
  readonly states: StoredTensors;
}

/**
 * Opens the checkpoint in `directory`, or the latest one of a folder of checkpoints or of a run
 * directory, whatever strategy and number of ranks saved it. Throws CheckpointError where files are
 * missing or cut; tensors are checked when they are read.
 */
export async function loadCheckpoint(directory: string): Promise<Checkpoint> {
  const { folder, state } = await findCheckpoint(directory);
  const { step, worldSize, extra, rankExtras } = state;
  for (const section of sectionNames) {
    for (const [rank, expected] of state[section].fileBytes.entries()) {
      if (expected === 0) continue;
      const path = join(folder, fileName(section, rank, worldSize));
      const found = await stat(path).catch(() => undefined);
      if (found === undefined) throw damaged(path, 'it is missing');
      if (found.size !== expected) {
        throw damaged(path, `expected ${expected} bytes, found ${found.size}`);
      }
    }
  }
  const tensorsOf = (section: SectionName): StoredTensors =>
    new StoredTensors(folder, section, worldSize, state[section].tensors);
  return {
    directory: folder,
    step,
    worldSize,
    model: tensorsOf('model'),
    aliases: new Map(state.model.aliases),
    optimizer: tensorsOf('optimizer'),
    optimizerGroups: state.optimizer.groups,
    extra,
    rankExtras,
    rankStates: state.rankStates,
    states: tensorsOf('states'),
  };
}
