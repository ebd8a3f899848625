import type { JoinWay, MembersWay } from '../transports/join-way.ts';
import type { TransportChoice } from '../transports/transport-choice.ts';

/** Distinguishes workers and child processes of a launcher from others. */
export const rankDataMarker = 'shardwise-rank-2';

/** The addresses of a run's parameter servers, and the secret that gives access to them. */
export interface ServersData {
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
  readonly secret: string;
  /** Whether the following server keeps a copy of the data of each server. */
  readonly areReplicated: boolean;
}

/** The data that a launcher gives to a rank. */
export interface RankData {
  readonly marker: typeof rankDataMarker;
  readonly rank: number;
  readonly worldSize: number;
  readonly localRank: number;
  readonly runDirectory: string;
  /** Where checkpoints go: an absolute path, or an address. Undefined: below the run directory. */
  readonly checkpointDirectory: string | undefined;
  readonly resumeDirectory: string | undefined;
  readonly way: JoinWay | MembersWay;
  readonly transport: TransportChoice;
  /** Undefined if the run has no parameter servers. */
  readonly servers: ServersData | undefined;
  /**
   * The memory of the StopFlag. If undefined, the launcher sends the stop as a message, and the ranks agree on the
   * step.
   */
  readonly stop: SharedArrayBuffer | undefined;
}

/** The ranks that train together from some moment on, as one of them is told. */
export interface Membership {
  readonly kind: 'membership';
  /** Counts the memberships of a generation, from 0. */
  readonly epoch: number;
  /** Undefined if this rank waits, because too few others are there for another replica. */
  readonly place?: MemberPlace | undefined;
  /**
   * Why ranks of the membership before are gone, so that its calls cannot end. Undefined if all are there: then they go
   * over to this membership after the same commit.
   */
  readonly lost?: string | undefined;
}

/** The place of a rank among those that train together. */
export interface MemberPlace {
  readonly rank: number;
  readonly worldSize: number;
  /** The number of consecutive ranks that have the state together, as the first of all ranks has said. */
  readonly replicaSize: number;
  /** The place of the host of each rank. */
  readonly hosts: readonly number[];
}

/** An order of the launcher to a rank that runs. */
export type LauncherOrder =
  | Membership
  | { readonly kind: 'stop' }
  | { readonly kind: 'abort'; readonly rank?: number | undefined; readonly reason: string };

export function isRankData(value: unknown): value is RankData {
  return (
    typeof value === 'object' &&
    value !== null &&
    'marker' in value &&
    value.marker === rankDataMarker
  );
}

export function isLauncherOrder(value: unknown): value is LauncherOrder {
  return (
    typeof value === 'object' &&
    value !== null &&
    'kind' in value &&
    (value.kind === 'stop' || value.kind === 'abort' || value.kind === 'membership')
  );
}
