import { basename } from 'node:path';
import {
  describeTransport,
  type TransportChoice,
} from '../launcher/transports/transport-choice.ts';
import type { RankMessage } from '../run-state/run-message.ts';
import { initialRunState, reduceRun } from '../run-state/run-state.ts';
import { PlainOutput } from '../terminal/plain-output.ts';

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
  const onInterrupt = (): void => {
    onStop();
    state = reduceRun(state, { kind: 'stopping' });
    output?.update(state);
  };
  process.once('SIGINT', onInterrupt);
  return {
    send: (message) => {
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
