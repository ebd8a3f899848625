import { diskFiles } from '../checkpoint/disk-files.ts';
import { listCheckpoints } from '../checkpoint/list-checkpoints.ts';
import { verifyCheckpoint } from '../checkpoint/verify-checkpoint.ts';
import type { ResumePoint } from '../rendezvous/rendezvous.ts';
import type { RoundFailure } from '../rendezvous/round.ts';
import { displayPath } from '../text/display-path.ts';

export interface ResumePointsOptions {
  readonly runDirectory: string;
  /** The checkpoint with which the run began. */
  readonly resumeDirectory: string | undefined;
  /** Tells the user which checkpoints are passed over, and why. */
  readonly onNotice: (text: string) => void;
}

/**
 * From where the ranks of a run go on: its own latest checkpoint, once it has one, else that with which it
 * began. A damaged one is passed over, and said to be; a run that has had checkpoints never starts from the
 * beginning because all of them are damaged.
 */
export class ResumePoints {
  readonly #options: ResumePointsOptions;
  readonly #damaged = new Set<string>();

  constructor(options: ResumePointsOptions) {
    this.#options = options;
  }

  /** `failure` ended the round before; where a rank could not read its checkpoint, all bytes are read here. */
  async next(failure: RoundFailure | undefined): Promise<ResumePoint> {
    const { runDirectory, resumeDirectory, onNotice } = this.#options;
    const own = await listCheckpoints(diskFiles, runDirectory);
    // Before the first failure it is as the user says.
    if (own.length === 0 && failure === undefined) {
      return { kind: 'from', directory: resumeDirectory };
    }
    const begun =
      resumeDirectory === undefined ? [] : await listCheckpoints(diskFiles, resumeDirectory);
    const folders = [...own, ...begun];
    const isSuspect = failure?.kind === 'checkpoint';
    for (const folder of folders) {
      if (await this.#isWhole(folder, isSuspect)) return { kind: 'from', directory: folder };
    }
    if (folders.length === 0) return { kind: 'from', directory: undefined };
    onNotice('No checkpoint is whole: start from the beginning, if you want to, without --resume.');
    return { kind: 'nowhere' };
  }

  async #isWhole(folder: string, contents: boolean): Promise<boolean> {
    if (this.#damaged.has(folder)) return false;
    try {
      await verifyCheckpoint(folder, { contents });
      return true;
    } catch (error) {
      this.#damaged.add(folder);
      const found = error instanceof Error ? error.message : String(error);
      this.#options.onNotice(`The checkpoint ${displayPath(folder)} is passed over. ${found}.`);
      return false;
    }
  }
}
