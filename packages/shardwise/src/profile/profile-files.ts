import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RankProfile } from '../run-state/rank-profile.ts';
import { profilePage } from './profile-page.ts';

/** A profile of all ranks that was written. */
export interface WrittenProfile {
  readonly path: string;
  readonly profiles: readonly RankProfile[];
}

export interface ProfileFilesOptions {
  readonly directory: string;
  readonly script: string;
  /** Called when a page has been written. */
  readonly onWritten: (written: WrittenProfile) => void;
  /** Called if a page can't be written. */
  readonly onFailed: (error: unknown) => void;
}

/** Writes a page for each profile as soon as all ranks have sent theirs, and at the end for those that have. */
export class ProfileFiles {
  readonly #options: ProfileFilesOptions;
  readonly #open = new Map<number, Map<number, RankProfile>>();
  #written: Promise<void> = Promise.resolve();

  constructor(options: ProfileFilesOptions) {
    this.#options = options;
  }

  add(profile: RankProfile, worldSize: number): void {
    const { cycle, rank } = profile;
    const ofCycle = this.#open.get(cycle) ?? new Map<number, RankProfile>();
    this.#open.set(cycle, ofCycle);
    ofCycle.set(rank, profile);
    if (ofCycle.size >= worldSize) this.#write(cycle, ofCycle);
  }

  /** Writes what is left. Call it when no rank sends any more. */
  async close(): Promise<void> {
    for (const [cycle, ofCycle] of this.#open) this.#write(cycle, ofCycle);
    await this.#written;
  }

  #write(cycle: number, ofCycle: ReadonlyMap<number, RankProfile>): void {
    const { directory, script, onWritten, onFailed } = this.#options;
    this.#open.delete(cycle);
    const profiles = [...ofCycle.values()];
    const path = join(directory, cycle === 0 ? 'profile.html' : `profile-${cycle + 1}.html`);
    this.#written = this.#written
      .then(() => mkdir(directory, { recursive: true }))
      .then(() => writeFile(path, profilePage(profiles, script)))
      .then(() => onWritten({ path, profiles }), onFailed);
  }
}
