import { isMainThread } from 'node:worker_threads';
import type { ProcessGroup } from '@shardwise/core/extend';
import { asRankLaunch } from '../environment/as-rank-launch.ts';
import { detectLaunch } from '../environment/detect-launch.ts';
import { launcherVariable } from '../launcher/environment.ts';
import { environmentHost } from './environment-host.ts';
import { groupHost } from './group-host.ts';
import { launchedHost } from './launched-host.ts';
import { findLauncher } from './launcher-link.ts';
import { loneHost } from './lone-host.ts';
import type { RankHost } from './rank-host.ts';

/**
 * Finds the host of this rank: our launcher if it has started this rank, otherwise the script's own group, and
 * otherwise what the environment says. Throws ConfigError.
 */
export async function findHost(group?: ProcessGroup): Promise<RankHost> {
  const link = await findLauncher();
  if (link !== undefined) return launchedHost(link, group);
  if (group !== undefined) return groupHost(group, process.env);
  // A process or thread that a rank starts has the rank's variables, but is not that rank.
  if (!isMainThread || process.env[launcherVariable] !== undefined) return loneHost();
  const launch = asRankLaunch(detectLaunch(process.env));
  return launch.kind === 'rank' && launch.worldSize > 1
    ? environmentHost(launch, process.env)
    : loneHost();
}
