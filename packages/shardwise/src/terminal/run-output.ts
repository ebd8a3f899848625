import type { RunState } from '../run-state/run-state.ts';

/** The stream to which a rank wrote a line. */
export type OutputStream = 'stdout' | 'stderr';

/** Shows the user what the launcher has to tell. There are several ways to show it. */
export interface RunOutput {
  /** Shows the new state of the run. */
  update(state: RunState): void;
  /** Shows a line that a rank wrote. */
  rankLine(rank: number, line: string, stream: OutputStream): void;
  /** Shows a message of the launcher itself. */
  notice(text: string): void;
  /** Shows what is left to show. */
  end(): void;
}

/** The notice after the user has asked for an end. It names what a script that goes on has left out. */
export const stoppingNotice =
  'Stopping at the next shouldStop(); press Ctrl-C again to stop at once.';

/** Returns a line of a rank with the rank's name. Lines of rank 0 have no name. */
export function namedLine(rank: number, line: string): string {
  return rank === 0 ? line : `[rank ${rank}] ${line}`;
}
