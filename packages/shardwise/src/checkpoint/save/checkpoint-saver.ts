import {
  checkOptions,
  currentSession,
  Module,
  option,
  type OptionRules,
  type ProcessGroup,
} from '@shardwise/core/extend';
import { beginSave, type BegunSave } from './begin-save.ts';
import {
  checkContents,
  type CheckpointContents,
  checkStep,
  rankContentsOf,
} from './checkpoint-contents.ts';
import type { CheckpointFiles } from '../places/checkpoint-files.ts';
import { type DifferentBuffers, describeDifferentBuffers } from './different-buffers.ts';
import { finishSave } from './finish-save.ts';

/** Options of `context.saveCheckpoint`. */
export interface SaveOptions {
  /**
   * Writes while training continues: the call returns when all is copied to host memory. The next save waits
   * for this one, and throws its error if it failed. Default: false.
   */
  readonly async?: boolean;
  /** Keeps only this many checkpoints in the folder, the latest ones. Default: all. */
  readonly keep?: number;
}

export const saveRules: OptionRules<SaveOptions> = {
  async: option.flag,
  keep: option.integer(1),
};

export interface CheckpointSaverOptions {
  readonly directory: string;
  /** The ranks that save together. */
  readonly group: ProcessGroup;
  /** Called on rank 0 when a checkpoint is on the disk. */
  readonly onSaved?: (saved: { readonly step: number; readonly directory: string }) => void;
  readonly files: CheckpointFiles;
}

/** Saves the checkpoints of a run to one folder, one after the other. */
export class CheckpointSaver {
  readonly #options: CheckpointSaverOptions;
  /** A group of its own for saves in the background, so that their calls do not mix with those of the training. */
  #background: ProcessGroup | undefined;
  readonly #known = new Set<string>();
  #running: Promise<void> = Promise.resolve();
  /** The calls of `save` that have not returned. */
  readonly #saving = new Set<Promise<string>>();
  #hasWarned = false;
  #failure: { readonly error: unknown } | undefined;

  constructor(options: CheckpointSaverOptions) {
    this.#options = options;
  }

  /**
   * Saves a checkpoint. It is a collective. Returns the checkpoint's folder, which is `step-N` in the directory, or
   * `step-N-2` if that exists. Throws CheckpointError if this save fails, or if the previous save failed in the
   * background. Throws ConfigError for options out of range. In every case `latest` keeps naming a whole checkpoint.
   */
  async save(contents: CheckpointContents, options: SaveOptions = {}): Promise<string> {
    const saving = this.#save(contents, options);
    this.#saving.add(saving);
    try {
      return await saving;
    } finally {
      this.#saving.delete(saving);
    }
  }

  async #save(contents: CheckpointContents, options: SaveOptions): Promise<string> {
    checkOptions('saveCheckpoint', options, saveRules);
    checkContents(contents);
    const { directory, group, files } = this.#options;
    const { step, model } = contents;
    checkStep(step, directory);
    await this.finish();
    // Pending values may contain collectives, and only some ranks read tensors below. So all ranks realize them here.
    if (model instanceof Module) await currentSession().realize([]);
    const begun = await beginSave(group, {
      files,
      directory,
      step,
      known: this.#known,
      keep: options.keep,
      contents: () => rankContentsOf(contents, group),
      stage: options.async ?? false,
    });
    if (group.rank === 0) this.#warnOf(begun.differentBuffers);
    const folder = files.join(directory, begun.name);
    if (options.async !== true) {
      await this.#complete(group, begun);
      return folder;
    }
    this.#background ??= await group.split(0, group.rank);
    const background = this.#background ?? group;
    this.#running = this.#complete(background, begun).catch((error: unknown) => {
      this.#failure = { error };
    });
    return folder;
  }

  /** Waits for a save in the background, and throws its error if it failed. */
  async finish(): Promise<void> {
    await this.#running;
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.error;
  }

  /** Does what finish does, and also waits for calls of `save` that nobody has awaited. It must be the last call. */
  async close(): Promise<void> {
    try {
      // The callers of these saves get their errors.
      await Promise.allSettled(this.#saving);
      await this.finish();
    } finally {
      this.#background?.close();
      this.#background = undefined;
    }
  }

  /** Warns once, because the buffers of a training usually differ at every save. */
  #warnOf(different: DifferentBuffers | undefined): void {
    if (different === undefined || this.#hasWarned) return;
    this.#hasWarned = true;
    console.warn(`shardwise: ${describeDifferentBuffers(different)}`);
  }

  async #complete(group: ProcessGroup, begun: BegunSave): Promise<void> {
    const directory = await finishSave(group, begun);
    if (group.rank === 0) this.#options.onSaved?.({ step: begun.step, directory });
  }
}
