import { readableAt } from '../checkpoint/places/checkpoint-place.ts';
import { listCheckpoints } from '../checkpoint/places/list-checkpoints.ts';
import { verifyCheckpoint } from '../checkpoint/load/load-checkpoint.ts';
import type { ResumePoint } from '../rendezvous/rendezvous.ts';
import type { GenerationFailure } from '../rendezvous/generation.ts';
import { displayPath } from '../text/display-path.ts';

export interface ResumePointsOptions {
  /** Where the run saves its checkpoints. */
  readonly directory: string;
  /** The checkpoints that were there before the run began. */
  readonly earlier: readonly string[];
  /** The checkpoint with which the run began. */
  readonly resumeDirectory: string | undefined;
  /** Tells the user which checkpoints are skipped, and why. */
  readonly onNotice: (text: string) => void;
}

/**
 * Finds the checkpoint from which the ranks of a run continue: the run's own latest checkpoint if it has one, and
 * otherwise the checkpoint with which the run began. It skips damaged checkpoints and says so. A run that has had
 * checkpoints never starts from the beginning only because all of them are damaged.
 */
export class ResumePoints {
  readonly #options: ResumePointsOptions;
  readonly #damaged = new Set<string>();

  constructor(options: ResumePointsOptions) {
    this.#options = options;
  }

  /**
   * Returns the next point. `failure` ended the previous generation. If a rank could not read its checkpoint, all bytes of
   * the checkpoints are verified here.
   */
  async next(failure: GenerationFailure | undefined): Promise<ResumePoint> {
    const { directory, earlier, resumeDirectory, onNotice } = this.#options;
    const own = (await checkpointsAt(directory)).filter((folder) => !earlier.includes(folder));
    // Before the first failure, the choice of the user is not verified.
    if (own.length === 0 && failure === undefined) {
      return { kind: 'from', directory: resumeDirectory };
    }
    const begun = resumeDirectory === undefined ? [] : await checkpointsAt(resumeDirectory);
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

/** Lists the checkpoints of a place, the latest first. */
export async function checkpointsAt(place: string): Promise<readonly string[]> {
  const { files, directory } = readableAt(place);
  return listCheckpoints(files, directory);
}
