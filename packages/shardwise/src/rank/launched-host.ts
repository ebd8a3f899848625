import { CollectiveAbortedError, type ProcessGroup } from '@shardwise/core/extend';
import type { JoinWay } from '../launcher/transports/join-way.ts';
import type { LaunchEnd } from '../launcher/launch.ts';
import { StopFlag } from '../launcher/ranks/stop-flag.ts';
import { AgreedStop, OwnStop } from './agreed-stop.ts';
import { joinWorld } from './join/join-world.ts';
import type { JoinedRank } from './join/joined-rank.ts';
import type { LauncherLink } from './launcher-link.ts';
import { checkOwnGroup, ownTransport } from './own-transport.ts';
import type { RankHost } from './rank-host.ts';

/**
 * Returns the host of a rank that `shardwise run` has started. Metrics go to the launcher, which shows them. `own` is a
 * group that the script has made. Throws ConfigError if that group has other ranks.
 */
export function launchedHost(link: LauncherLink, way: JoinWay, own?: ProcessGroup): RankHost {
  const { data } = link;
  const { rank, localRank, runDirectory, resumeDirectory } = data;
  if (own !== undefined) checkOwnGroup(own, data);
  const transport = own === undefined ? data.transport : ownTransport(own);
  // If ranks share memory with the launcher, the launcher itself ends their calls.
  const isTold = own !== undefined || !['threads', 'shm'].includes(way.kind);
  const stopped = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<never>();
  // Avoids an unhandled rejection if the rank has joined and makes no call.
  aborted.promise.catch(() => undefined);
  // Listens from the start, so that a rank does not go on waiting for a rank that has failed.
  link.listen((order) => {
    if (order.kind === 'stop') stopped.resolve();
    else if (order.kind === 'abort') aborted.reject(abortReason(order));
  });
  return {
    rank,
    localRank,
    transport,
    isRecorded: true,
    join: () =>
      own === undefined
        ? Promise.race([joinWorld(way, data), aborted.promise])
        : Promise.resolve({ group: own, arena: undefined }),
    enter: async ({ group, traffic }: JoinedRank) => {
      const asked = way.kind === 'apart' ? new OwnStop() : new AgreedStop(group);
      void stopped.promise.then(() => asked.request());
      aborted.promise.catch((reason: unknown) => {
        if (isTold && reason instanceof Error) group.close(reason);
      });
      if (own !== undefined && rank === 0) {
        link.send({ kind: 'facts', rank, facts: { group: transport.reason } });
      }
      return {
        runDirectory,
        checkpointDirectory: data.checkpointDirectory,
        resumeDirectory,
        serversData: data.servers,
        traffic,
        stop: data.stop === undefined ? asked : new StopFlag(data.stop),
        send: (message) => link.send(message),
        onClose: () => link.close(),
      };
    },
  };
}

/**
 * Returns the error with which a group is closed. Its calls then name the rank that failed, and not the rank that was
 * told of the failure.
 */
export function abortReason({ rank, reason }: LaunchEnd): Error {
  return new CollectiveAbortedError(
    {
      asked: 'Working in the group',
      found: `${rank === undefined ? 'the launcher' : `rank ${rank}`} ended it (${reason})`,
      todo: 'Look for the first failure',
    },
    { abortedBy: rank, reason },
  );
}
