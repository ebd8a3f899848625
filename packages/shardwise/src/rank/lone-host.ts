import { basename, resolve } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { StopWord } from '../launcher/stop-word.ts';
import { runDirectoryName } from '../run-state/run-directory.ts';
import { initialRunState, reduceRun } from '../run-state/run-state.ts';
import { PlainOutput } from '../terminal/plain-output.ts';
import type { RankHost } from './rank-host.ts';

/** Prints metrics as plain lines; Ctrl-C asks for an end, a second one ends the process. */
export function loneHost(): RankHost {
  const script = process.argv[1] ?? 'script';
  const runDirectory = resolve(runDirectoryName(script, new Date()));
  const output = new PlainOutput(process);
  const stop = new StopWord();
  let state = initialRunState({
    command: ['node', ...process.argv.slice(1)].join(' '),
    script: basename(script),
    runDirectory,
    worldSize: 1,
    startMs: Date.now(),
    nodeVersion: process.version,
  });
  const onInterrupt = (): void => {
    stop.request();
    state = reduceRun(state, { kind: 'stopping' });
    output.update(state);
  };
  process.once('SIGINT', onInterrupt);
  return {
    rank: 0,
    world: createThreadsWorld({ size: 1 }),
    runDirectory,
    resumeDirectory: undefined,
    stop,
    send: (message) => {
      state = reduceRun(state, message);
      output.update(state);
      if (message.kind === 'checkpoint') output.notice(`Checkpoint: ${message.directory}`);
    },
    onClose: () => {
      process.removeListener('SIGINT', onInterrupt);
      output.end();
    },
  };
}
