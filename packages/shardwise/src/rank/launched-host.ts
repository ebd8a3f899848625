import type { ThreadsWorld } from '@shardwise/collectives';
import type { RankData } from '../launcher/rank-data.ts';
import { StopWord } from '../launcher/stop-word.ts';
import type { RankHost } from './rank-host.ts';

/** Metrics go to the launcher, which shows them. */
export function launchedHost(data: RankData<ThreadsWorld>): RankHost {
  const { rank, world, runDirectory, resumeDirectory, port } = data;
  return {
    rank,
    world,
    runDirectory,
    resumeDirectory,
    stop: new StopWord(data.stop),
    send: (message) => port.postMessage(message),
    onClose: () => port.close(),
  };
}
