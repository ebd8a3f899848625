import type { ThreadsWorld } from '@shardwise/collectives';
import type { ShmWorld } from '@shardwise/collectives/node';
import type { TransportChoice } from './transports/transport-choice.ts';

/** Distinguishes workers and child processes of a launcher from others. */
export const rankDataMarker = 'shardwise-rank-2';

/** How a rank joins the other ranks. */
export type JoinWay = LocalWay | TcpWay | HostedWay | ModuleWay | ApartWay;

/** How ranks of one host join each other. */
export type LocalWay =
  | { readonly kind: 'threads'; readonly world: ThreadsWorld }
  | { readonly kind: 'shm'; readonly world: ShmWorld };

/** For workers of parameter servers, which start again one by one and do not talk to each other. */
interface ApartWay {
  readonly kind: 'apart';
}

interface TcpWay {
  readonly kind: 'tcp';
  /** The place of the host of each rank, by rank. */
  readonly hosts: readonly number[];
  readonly meeting: TcpMeeting;
}

/** Ranks of one host share memory, and hosts talk by TCP. */
export interface HostedWay {
  readonly kind: 'hosted';
  readonly local: LocalWay;
  /** The place of the host of each rank, by rank. */
  readonly hosts: readonly number[];
  readonly meeting: TcpMeeting;
}

/** Ranks talk by a transport that a module of the user makes. */
export interface ModuleWay {
  readonly kind: 'module';
  readonly module: TransportModule;
  /** The place of the host of each rank, by rank. */
  readonly hosts: readonly number[];
  readonly meeting: TcpMeeting;
}

/** A module whose default export is a TransportFactory. */
export interface TransportModule {
  /** The path or package name, as the user has given it. */
  readonly name: string;
  /** What is imported: the URL of a file, or the name of a package. */
  readonly specifier: string;
  /** The absolute path of the directory in which packages are looked for. */
  readonly directory: string;
  /** How long the factory may take. */
  readonly timeoutMs: number;
}

/** Where ranks that talk by TCP find each other. */
export interface TcpMeeting {
  readonly store: { readonly host: string; readonly port: number };
  readonly secret: string;
  /** Counts the starts of the group. Ranks with another epoch are refused. */
  readonly epoch: number;
  /** The address of this host, at which its ranks listen. */
  readonly host: string;
}

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
  readonly resumeDirectory: string | undefined;
  readonly way: JoinWay;
  readonly transport: TransportChoice;
  /** Undefined if the run has no parameter servers. */
  readonly servers: ServersData | undefined;
  /**
   * The memory of the StopFlag. If undefined, the launcher sends the stop as a message, and the ranks agree on the
   * step.
   */
  readonly stop: SharedArrayBuffer | undefined;
}

/** An order of the launcher to a rank that runs. */
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
