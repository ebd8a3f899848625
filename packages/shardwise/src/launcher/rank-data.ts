import type { ThreadsWorld } from '@shardwise/collectives';
import type { ShmWorld } from '@shardwise/collectives/node';
import type { TransportChoice } from './transports/transport-choice.ts';

/** Tells workers and child processes of a launcher from others. */
export const rankDataMarker = 'shardwise-rank-2';

/** How a rank joins the others. */
export type JoinWay = LocalWay | TcpWay | HostedWay | ApartWay;

/** How ranks meet that are all on this host. */
export type LocalWay =
  | { readonly kind: 'threads'; readonly world: ThreadsWorld }
  | { readonly kind: 'shm'; readonly world: ShmWorld };

/** Workers of parameter servers, which come and go one by one. */
export interface ApartWay {
  readonly kind: 'apart';
}

export interface TcpWay {
  readonly kind: 'tcp';
  /** By rank: the place of its host. */
  readonly hosts: readonly number[];
  readonly meeting: TcpMeeting;
}

/** Shared memory within each host, TCP between hosts. */
export interface HostedWay {
  readonly kind: 'hosted';
  readonly local: LocalWay;
  /** By rank: the place of its host. */
  readonly hosts: readonly number[];
  readonly meeting: TcpMeeting;
}

/** Where ranks that talk by TCP find each other. */
export interface TcpMeeting {
  readonly store: { readonly host: string; readonly port: number };
  readonly secret: string;
  /** Counts the starts of the group: ranks of another one are refused. */
  readonly epoch: number;
  /** This host's address, where its ranks listen. */
  readonly host: string;
}

/** Where the parameter servers of a run are, and what opens them. */
export interface ServersData {
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
  readonly secret: string;
  /** Whether the next server has a copy of what each has. */
  readonly areReplicated: boolean;
}

/** What a rank is told by its launcher. */
export interface RankData {
  readonly marker: typeof rankDataMarker;
  readonly rank: number;
  readonly worldSize: number;
  readonly localRank: number;
  readonly runDirectory: string;
  readonly resumeDirectory: string | undefined;
  readonly way: JoinWay;
  readonly transport: TransportChoice;
  /** Undefined: the run has no parameter servers. */
  readonly servers: ServersData | undefined;
  /** Memory of the StopWord; undefined: the launcher says it in a message, and ranks agree on the step. */
  readonly stop: SharedArrayBuffer | undefined;
}

/** What a launcher tells a rank that runs. */
export type LauncherOrder =
  | { readonly kind: 'stop' }
  | { readonly kind: 'abort'; readonly rank: number | undefined; readonly reason: string };

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
    (value.kind === 'stop' || value.kind === 'abort')
  );
}
