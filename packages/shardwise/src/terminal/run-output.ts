import type { RunState } from '../run-state/run-state.ts';

/** The stream to which a rank wrote a line. */
export type OutputStream = 'stdout' | 'stderr';

/** What the launcher tells its user, however that is shown. */
export interface RunOutput {
  /** The run got on. */
  update(state: RunState): void;
  /** A rank wrote a line. */
  rankLine(rank: number, line: string, stream: OutputStream): void;
  /** The launcher itself has something to say. */
  notice(text: string): void;
  /** Shows what is left to show. */
  end(): void;
}

/** The notice once the user has asked for an end. */
export const stoppingNotice = 'Stopping after this step; press Ctrl-C again to stop at once.';

/** Rank 0 speaks for the run; the others are named. */
export function namedLine(rank: number, line: string): string {
  return rank === 0 ? line : `[rank ${rank}] ${line}`;
}
