import { basename } from 'node:path';
import {
  describeTransport,
  type TransportChoice,
} from '../launcher/transports/transport-choice.ts';
import { ProfileFiles } from '../profile/profile-files.ts';
import { profileLines } from '../profile/profile-lines.ts';
import type { RankMessage } from '../run-state/run-message.ts';
import { initialRunState, reduceRun } from '../run-state/run-state.ts';
import { PlainOutput } from '../terminal/plain-output.ts';
import { displayPath } from '../text/display-path.ts';

export interface PrintedMetrics {
  readonly send: (message: RankMessage) => void;
  readonly onClose: () => void;
}

/**
 * Handles the metrics of a rank without our launcher. Rank 0 prints its own metrics, and each rank listens to Ctrl-C.
 */
export function printedMetrics(options: {
  readonly runDirectory: string;
  readonly rank: number;
  /** How the rank reaches the others. Undefined if there are none. */
  readonly transport?: TransportChoice;
  readonly onStop: () => void;
}): PrintedMetrics {
  const { runDirectory, rank, transport, onStop } = options;
  const script = process.argv[1] ?? 'script';
  const output = rank === 0 ? new PlainOutput(process) : undefined;
  let state = initialRunState({
    command: ['node', ...process.argv.slice(1)].join(' '),
    script: basename(script),
    runDirectory,
    worldSize: 1,
    startMs: Date.now(),
    engine: `Node ${process.version}`,
    ...(transport === undefined ? {} : { transport: describeTransport(transport) }),
  });
  const profiles = new ProfileFiles({
    directory: runDirectory,
    script: basename(script),
    onWritten: (written) => {
      for (const line of profileLines(written.profiles)) output?.notice(line);
      output?.notice(`Profile: ${displayPath(written.path)}`);
    },
    onFailed: (error) => output?.notice(`The profile can't be written: ${String(error)}`),
  });
  const onInterrupt = (): void => {
    onStop();
    state = reduceRun(state, { kind: 'stopping' });
    output?.update(state);
  };
  process.once('SIGINT', onInterrupt);
  return {
    send: (message) => {
      if (message.kind === 'profile') {
        // The other ranks have none of this rank's messages, so each page is of one rank.
        if (rank === 0) profiles.add(message, 1);
        return;
      }
      state = reduceRun(state, message);
      output?.update(state);
      if (message.kind === 'checkpoint') output?.notice(`Checkpoint: ${message.directory}`);
    },
    onClose: () => {
      process.removeListener('SIGINT', onInterrupt);
      output?.end();
    },
  };
}
