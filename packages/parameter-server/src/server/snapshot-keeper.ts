import { check, CheckpointError } from '@shardwise/core/extend';
import { checkShardHead } from '../protocol/check-request.ts';
import type { ShardHead } from '../protocol/shard-head.ts';
import type { Shard } from './shard.ts';

/** Where snapshots of a server's range are kept. */
export interface SnapshotStore {
  /** Replaces the previous snapshot, completely or not at all. */
  write(head: string, arrays: readonly Uint8Array[]): Promise<void>;
  /** Undefined if there is no snapshot. */
  read(): Promise<{ readonly head: string; readonly arrays: readonly Uint8Array[] } | undefined>;
}

/** Writes a snapshot of a range at intervals, while the range goes on changing. */
export class SnapshotKeeper {
  readonly #store: SnapshotStore;
  readonly #everyMs: number;
  #writtenMs = performance.now();
  #writing: Promise<void> = Promise.resolve();
  #isWriting = false;
  #version = 0;
  #failure: unknown;

  constructor(store: SnapshotStore, everyMs: number) {
    this.#store = store;
    this.#everyMs = everyMs;
  }

  /** Call this after each change. It takes a snapshot if it is time. Writing continues in the background. */
  async note(shard: Shard): Promise<void> {
    if (this.#isWriting || performance.now() < this.#writtenMs + this.#everyMs) return;
    await this.writeNow(shard);
  }

  /** Writes the last snapshot. Throws the error of an earlier one, if that failed. */
  async finish(shard: Shard): Promise<void> {
    await this.#writing;
    if (shard.isInitialised && shard.version !== this.#version) await this.writeNow(shard);
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Returns whether there was a snapshot. Throws CheckpointError for an invalid one. */
  async restore(shard: Shard): Promise<boolean> {
    const found = await this.#store.read();
    if (found === undefined) return false;
    await shard.restore(readHead(found.head), found.arrays);
    this.#version = shard.version;
    return true;
  }

  /** Takes a snapshot. Writing continues in the background. */
  async writeNow(shard: Shard): Promise<void> {
    this.#isWriting = true;
    const { head, arrays } = await shard.snapshot();
    this.#version = shard.version;
    this.#writing = this.#store
      .write(JSON.stringify(head), arrays)
      .catch((error: unknown) => {
        this.#failure = error;
      })
      .finally(() => {
        this.#writtenMs = performance.now();
        this.#isWriting = false;
      });
  }
}

function readHead(text: string): ShardHead {
  try {
    return checkShardHead(JSON.parse(text));
  } catch (cause) {
    if (!(cause instanceof check.SavedDataError)) throw cause;
    const { path, message } = cause;
    throw new CheckpointError(
      {
        asked: 'to begin with a snapshot of a parameter server',
        found: `${path}: ${message}, so the snapshot is not of this version`,
        todo: 'Remove the snapshot, and start the run again from a checkpoint',
      },
      { path },
      { cause },
    );
  }
}
