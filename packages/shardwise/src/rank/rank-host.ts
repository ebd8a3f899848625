import type { StopSource } from '../launcher/ranks/stop-flag.ts';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';
import type { ServersData } from '../launcher/ranks/rank-data.ts';
import type { RankMessage } from '../run-state/run-message.ts';
import type { Traffic } from './join/count-traffic.ts';
import type { JoinedRank } from './join/joined-rank.ts';

/** The surroundings of a rank: our launcher, another launcher, or none. */
export interface RankHost {
  readonly rank: number;
  readonly localRank: number;
  readonly transport: TransportChoice;
  /** Whether the rank leaves a record of its last calls. */
  readonly isRecorded: boolean;
  join(): Promise<JoinedRank>;
  /** Call this when the group has been made. It returns what can only be known with a group. */
  enter(joined: JoinedRank): Promise<RankSurroundings>;
}

export interface RankSurroundings {
  readonly runDirectory: string;
  /** Where checkpoints go: a path, or an address. Absent: below the run directory. */
  readonly checkpointDirectory?: string | undefined;
  readonly resumeDirectory: string | undefined;
  readonly stop: StopSource;
  /** Absent if the run has no parameter servers. */
  readonly serversData?: ServersData | undefined;
  /** Counts messages to other ranks. Absent if they share memory, or the script has connected them. */
  readonly traffic?: Traffic | undefined;
  readonly send: (message: RankMessage) => void;
  readonly onClose: () => void;
}
