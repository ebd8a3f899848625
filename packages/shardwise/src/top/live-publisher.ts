import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Store } from '@shardwise/core/extend';
import type { RankFigures } from '../run-state/rank-figures.ts';
import type { RunState } from '../run-state/run-state.ts';
import { LAST_SNAPSHOT_KEY, SNAPSHOT_FILE, SNAPSHOT_KEY, SNAPSHOT_MS } from './run-snapshot.ts';
import { snapshotText } from './snapshot-text.ts';
import { type RunEnding, takeSnapshot } from './take-snapshot.ts';

/** What is known of a run. */
interface PublishedRun {
  readonly state: RunState;
  readonly ranks: readonly RankFigures[];
}

export interface LivePublisherOptions {
  readonly runDirectory: string;
  readonly run: PublishedRun;
  /** The store of the hosts. Undefined if there are no other hosts. */
  readonly store: Store | undefined;
  readonly onNotice: (text: string) => void;
}

/** A file system may refuse to replace a file that somebody is just reading. */
const MAX_FAILURES = 3;

/**
 * Writes a run's state once a second, for `shardwise top`: to the run's directory, and to the store of its hosts. While
 * a snapshot is being written, no other one begins, so a slow disk holds up nothing.
 */
export class LivePublisher {
  readonly #options: LivePublisherOptions;
  readonly #timer: NodeJS.Timeout;
  /** For each rank, the reports that were known at the last snapshot, and since when there are no more. */
  #seen: readonly { readonly reports: number; readonly sinceMs: number }[] = [];
  #sequence = 0;
  /** How often in a row the file could not be written. */
  #failures = 0;
  #writing: Promise<void> | undefined;
  #ended: Promise<void> | undefined;

  constructor(options: LivePublisherOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#tick(), SNAPSHOT_MS).unref();
    this.#tick();
  }

  /** Writes the last snapshot. Only the first call counts. */
  async end(ending: RunEnding): Promise<void> {
    clearInterval(this.#timer);
    this.#ended ??= (this.#writing ?? Promise.resolve()).then(() => this.#write(ending));
    await this.#ended;
  }

  #tick(): void {
    if (this.#ended !== undefined || this.#writing !== undefined) return;
    this.#writing = this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(ending?: RunEnding): Promise<void> {
    const { run, runDirectory, store, onNotice } = this.#options;
    const { state, ranks } = run;
    const clockMs = performance.now();
    this.#sequence += 1;
    this.#seen = ranks.map(({ reports }, rank) => {
      const before = this.#seen[rank];
      return before?.reports === reports ? before : { reports, sinceMs: clockMs };
    });
    const snapshot = takeSnapshot({
      state,
      ranks,
      sequence: this.#sequence,
      nowMs: Date.now(),
      quietMs: this.#seen.map(({ sinceMs }) => clockMs - sinceMs),
      end: ending,
    });
    const text = snapshotText(snapshot);
    const isLast = ending !== undefined;
    const told = store === undefined ? undefined : tell(store, text, isLast);
    if (this.#failures < MAX_FAILURES) {
      try {
        await replaceFile(join(runDirectory, SNAPSHOT_FILE), text);
        this.#failures = 0;
      } catch (error) {
        this.#failures = isLast ? MAX_FAILURES : this.#failures + 1;
        if (this.#failures === MAX_FAILURES) {
          onNotice(`shardwise top no longer finds this run by its directory: ${String(error)}`);
        }
      }
    }
    await told;
  }
}

/** The file is replaced as a whole, so that no reader sees a part of it. */
async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.tmp`, text);
  await rename(`${path}.tmp`, path);
}

/** If the store is lost, so is the run, which is reported elsewhere. */
async function tell(store: Store, text: string, isLast: boolean): Promise<void> {
  const bytes = new TextEncoder().encode(text);
  await store.set(SNAPSHOT_KEY, bytes).catch(() => undefined);
  if (isLast) await store.set(LAST_SNAPSHOT_KEY, bytes).catch(() => undefined);
}
