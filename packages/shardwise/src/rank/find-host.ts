import { isMainThread } from 'node:worker_threads';
import { resolve } from 'node:path';
import type { ProcessGroup } from '@shardwise/core/extend';
import { createThreadsWorld } from '@shardwise/collectives';
import { asRankLaunch } from '../environment/launch.ts';
import { detectLaunch } from '../environment/detect-launch.ts';
import { launcherVariable } from '../launcher/ranks/environment.ts';
import { environmentHost } from './environment-host.ts';
import { explainCalls } from './explain-calls.ts';
import { launchedHost } from './launched-host.ts';
import { findLauncher, type LauncherLink } from './launcher-link.ts';
import { boundHost } from './members/member-host.ts';
import type { RankHost } from './rank-host.ts';
import { ownTransport } from './own-transport.ts';
import { withoutLauncher } from './without-launcher.ts';
import { StopFlag } from '../launcher/ranks/stop-flag.ts';
import { runDirectoryName } from '../run-state/run-directory.ts';
import { joinThreads } from './join/join-shared-memory.ts';
import { printedMetrics } from './printed-metrics.ts';

/**
 * Finds the host of this rank: our launcher if it has started this rank, otherwise the script's own group, and
 * otherwise what the environment says. `found` is the link to the launcher, if it has been looked for. Throws
 * ConfigError.
 */
export async function findHost(group?: ProcessGroup, found?: LauncherLink): Promise<RankHost> {
  const link = found ?? (await findLauncher());
  if (link !== undefined) {
    const { way } = link.data;
    return way.kind === 'members' ? boundHost(link, way, group) : launchedHost(link, way, group);
  }
  explainCalls();
  if (group !== undefined) return groupHost(group, process.env);
  // A process or thread that a rank starts has the rank's variables, but is not that rank.
  if (!isMainThread || process.env[launcherVariable] !== undefined) return loneHost();
  const launch = asRankLaunch(detectLaunch(process.env));
  return launch.kind === 'rank' && launch.worldSize > 1
    ? environmentHost(launch, process.env)
    : loneHost();
}

/** Returns the host of a rank whose script has connected the ranks itself. Rank 0 prints its metrics. */
function groupHost(group: ProcessGroup, environment: NodeJS.ProcessEnv): RankHost {
  const { rank, size } = group;
  const launch = detectLaunch(environment);
  const isSame = launch.kind === 'rank' && launch.rank === rank && launch.worldSize === size;
  const transport = ownTransport(group);
  return {
    rank,
    // If it is unknown which ranks share a host, all of them may.
    localRank: isSame ? launch.localRank : rank,
    transport,
    isRecorded: true,
    join: async () => ({ group, arena: undefined }),
    enter: () => withoutLauncher(group, transport),
  };
}

/**
 * Returns the host of a rank that is alone. It prints metrics as plain lines. The first Ctrl-C asks for an end, and the
 * second one ends the process.
 */
function loneHost(): RankHost {
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
