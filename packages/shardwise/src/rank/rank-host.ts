import type { TransportChoice } from '../launcher/transports/transport-choice.ts';
import type { ServersData } from '../launcher/rank-data.ts';
import type { RankMessage } from '../run-state/message.ts';
import type { JoinedRank } from './join/joined-rank.ts';

/** What surrounds a rank: a launcher, ours or another one, or nobody. */
export interface RankHost {
  readonly rank: number;
  readonly localRank: number;
  readonly transport: TransportChoice;
  /** Whether to leave a record of the last calls. */
  readonly isRecorded: boolean;
  join(): Promise<JoinedRank>;
  /** To be called once the group has been made, for what can only be said with a group. */
  enter(joined: JoinedRank): Promise<RankSurroundings>;
}

export interface RankSurroundings {
  readonly runDirectory: string;
  readonly resumeDirectory: string | undefined;
  readonly stop: StopSource;
  /** Absent where the run has no parameter servers. */
  readonly serversData?: ServersData | undefined;
  readonly send: (message: RankMessage) => void;
  readonly onClose: () => void;
}

/** Whether the user has asked for an end. */
export interface StopSource {
  readonly requested: boolean;
  /** Whether to stop after update `step`; the same answer on every rank. */
  stopsAfter(step: number): boolean | Promise<boolean>;
}
