import { StopWord } from '../launcher/stop-word.ts';
import { AgreedStop } from './agreed-stop.ts';
import { joinWorld } from './join/join-world.ts';
import type { JoinedRank } from './join/joined-rank.ts';
import type { LauncherLink } from './launcher-link.ts';
import type { RankHost } from './rank-host.ts';

/** Of a rank that `shardwise run` has started; metrics go to the launcher, which shows them. */
export function launchedHost(link: LauncherLink): RankHost {
  const { data } = link;
  const { rank, localRank, runDirectory, resumeDirectory, transport } = data;
  return {
    rank,
    localRank,
    transport,
    isRecorded: true,
    join: () => joinWorld(data),
    enter: async (joined: JoinedRank) => {
      const agreed = new AgreedStop(joined.group);
      link.listen((order) => {
        if (order.kind === 'stop') agreed.request();
        else joined.abort(order.reason);
      });
      return {
        runDirectory,
        resumeDirectory,
        stop: data.stop === undefined ? agreed : new StopWord(data.stop),
        send: (message) => link.send(message),
        onClose: () => link.close(),
      };
    },
  };
}
