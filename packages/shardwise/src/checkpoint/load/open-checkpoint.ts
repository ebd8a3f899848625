import {
  checkOptions,
  ConfigError,
  describeValue,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { ReadableFiles } from '../places/checkpoint-files.ts';
import { damaged } from './chunk-files.ts';
import { findCheckpoint, type FoundCheckpoint } from '../places/find-checkpoint.ts';
import {
  fileName,
  type JsonValue,
  type SectionName,
  sectionNames,
  type StoredGroup,
  type StoredState,
} from '../format/index-file.ts';
import { StoredTensors } from './stored-tensors.ts';

/** A checkpoint, as checkpoints.load returns it. loadModel, loadOptimizer and loadStates read it. */
export interface Checkpoint {
  /** The folder of the checkpoint. */
  readonly directory: string;
  readonly step: number;
  /** The number of ranks that saved it. */
  readonly worldSize: number;
  readonly model: StoredTensors;
  /** Other names of shared parameters, and the names under which these are stored. */
  readonly aliases: ReadonlyMap<string, string>;
  /** The tensors of the optimizer, under `parameter name.state name`. */
  readonly optimizer: StoredTensors;
  readonly optimizerGroups: readonly StoredGroup[];
  readonly extra: JsonValue;
  /** The `rankExtra` of each rank. */
  readonly rankExtras: readonly JsonValue[];
  /** The `states` of each rank. Their tensors are in `states`. */
  readonly rankStates: readonly Readonly<Record<string, StoredState>>[];
  readonly states: StoredTensors;
}

/**
 * Opens the checkpoint in `directory`, or the latest one of a folder of checkpoints or of a run directory. Any strategy
 * and number of ranks may have saved it. Throws CheckpointError if files are missing or cut off. Tensors are checked
 * when they are read.
 */
export async function openCheckpoint(files: ReadableFiles, directory: string): Promise<Checkpoint> {
  return checkpointIn(files, await findCheckpoint(files, directory));
}

/** Opens a checkpoint whose state has been read. Throws CheckpointError if files are missing or cut off. */
export async function checkpointIn(
  files: ReadableFiles,
  { folder, state }: FoundCheckpoint,
): Promise<Checkpoint> {
  const { step, worldSize, extra, rankExtras } = state;
  for (const section of sectionNames) {
    for (const [rank, expected] of state[section].fileBytes.entries()) {
      if (expected === 0) continue;
      const path = files.join(folder, fileName(section, rank, worldSize));
      const found = await files.find(path);
      if (found === undefined) throw damaged(path, 'it is missing');
      if (found.byteLength !== expected) {
        throw damaged(path, `expected ${expected} bytes, found ${found.byteLength}`);
      }
    }
  }
  const tensorsOf = (section: SectionName): StoredTensors =>
    new StoredTensors(files, folder, section, worldSize, state[section].tensors);
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

const checkpointRules: OptionRules<{ readonly checkpoint: Checkpoint }> = {
  checkpoint: option.required({
    fits: (value): value is Checkpoint =>
      typeof value === 'object' && value !== null && 'rankStates' in value && 'aliases' in value,
    expected: 'a checkpoint, such as await checkpoints.load(directory)',
  }),
};

/** Throws ConfigError for what is no checkpoint, such as its folder, or the promise of one. */
export function requireCheckpoint(of: string, checkpoint: Checkpoint): void {
  checkOptions(of, { checkpoint }, checkpointRules);
}

/** Throws ConfigError for what checkpoints.load was given to load into. */
export function requireNoTargets(more: readonly unknown[]): void {
  if (more.length === 0) return;
  throw new ConfigError({
    asked: `checkpoints.load with ${describeValue(more[0])} as argument 2`,
    found: 'it opens a checkpoint, and loads nothing into another argument',
    todo: 'Give what it returns to loadModel(checkpoint, model), loadOptimizer and loadStates',
  });
}
