import { resolve } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { StopFlag } from '../launcher/stop-flag.ts';
import { runDirectoryName } from '../run-state/run-directory.ts';
import { joinThreads } from './join/join-shared-memory.ts';
import { printedMetrics } from './printed-metrics.ts';
import type { RankHost } from './rank-host.ts';

/**
 * Returns the host of a rank that is alone. It prints metrics as plain lines. The first Ctrl-C asks for an end, and the
 * second one ends the process.
 */
export function loneHost(): RankHost {
  return {
    rank: 0,
    localRank: 0,
    transport: { kind: 'none', reason: 'one rank' },
    isRecorded: false,
    join: async () => joinThreads(createThreadsWorld({ size: 1 }), 0),
    enter: async () => {
      const runDirectory = resolve(runDirectoryName(process.argv[1] ?? 'script', new Date()));
      const stop = new StopFlag();
      const metrics = printedMetrics({ runDirectory, rank: 0, onStop: () => stop.request() });
      return { runDirectory, resumeDirectory: undefined, stop, ...metrics };
    },
  };
}
