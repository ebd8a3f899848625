import type { ThreadsWorld } from '@shardwise/collectives';
import type { StopWord } from '../launcher/stop-word.ts';
import type { RankMessage } from '../run-state/message.ts';

/** What surrounds a rank: a launcher, or the process of a script that runs without one. */
export interface RankHost {
  readonly rank: number;
  readonly world: ThreadsWorld;
  readonly runDirectory: string;
  readonly resumeDirectory: string | undefined;
  readonly stop: StopWord;
  readonly send: (message: RankMessage) => void;
  readonly onClose: () => void;
}
