import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadTensors, type Module } from '@shardwise/core/extend';
import type { Engine } from '@shardwise/serve';
import { checkpointSource } from '../checkpoint/load/checkpoint-source.ts';
import { loadCheckpoint } from '../checkpoint/load/load-checkpoint.ts';
import { readableAt } from '../checkpoint/places/checkpoint-place.ts';
import { latestOf } from '../checkpoint/places/find-checkpoint.ts';

/** Where new weights come from, and how they are taken. */
export interface FollowedCheckpoints {
  /** The folder of a run, or of its checkpoints. It need not be there yet. */
  readonly place: string;
  readonly everyMs: number;
  readonly inFlight: 'recompute' | 'finish';
}

/**
 * Has an engine take the weights of each checkpoint that a training publishes, when all its files are there: the file
 * `latest` names a checkpoint only then. Other checkpoints than the latest one are passed over.
 */
export class CheckpointFollower {
  readonly #engine: Engine;
  readonly #model: Module;
  readonly #options: FollowedCheckpoints;
  readonly #tell: (line: string) => void;
  readonly #stopped = new AbortController();
  /** The checkpoint that was loaded, or that cannot be. */
  #seen: string | undefined;
  /** Why the last look was in vain. It is said once. */
  #told = '';

  /** `tell` is given a line about each checkpoint, whether it is taken or not. */
  constructor(
    engine: Engine,
    model: Module,
    options: FollowedCheckpoints,
    tell: (line: string) => void,
  ) {
    this.#engine = engine;
    this.#model = model;
    this.#options = options;
    this.#tell = tell;
  }

  /** Takes the latest checkpoint, if it is a new one. Never rejects: weights that cannot be taken leave those before. */
  async look(): Promise<void> {
    const { place, inFlight } = this.#options;
    let found: string | undefined;
    let isOpen = false;
    try {
      const { files, directory } = readableAt(place);
      found =
        (await latestOf(files, directory)) ??
        (await latestOf(files, files.join(directory, 'checkpoints')));
      if (found === undefined || found === this.#seen) return;
      const version = basename(found);
      const checkpoint = await loadCheckpoint(found);
      isOpen = true;
      await this.#engine.loadWeights(
        () => loadTensors(checkpointSource(checkpoint), this.#model, { rounds: true }),
        { version, inFlight },
      );
      this.#seen = found;
      this.#told = '';
      this.#tell(`The weights are those of ${found} now`);
    } catch (error) {
      // What is broken or of another model stays so. What cannot be opened may be opened later.
      if (isOpen) this.#seen = found;
      this.#tellOnce(
        `The weights stay as they were, because ${found ?? place} cannot be taken: ${String(error)}`,
      );
    }
  }

  /** Looks again and again until `stop`. */
  async follow(): Promise<void> {
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      await sleep(this.#options.everyMs, undefined, { signal }).catch(() => undefined);
      if (!signal.aborted) await this.look();
    }
  }

  stop(): void {
    this.#stopped.abort();
  }

  #tellOnce(line: string): void {
    if (line !== this.#told) this.#tell(line);
    this.#told = line;
  }
}
