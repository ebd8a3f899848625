import type { ThreadsWorld } from '@shardwise/collectives';
import type { ShmWorld } from '@shardwise/collectives/node';

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

/**
 * For ranks of which some may be lost while the others go on. The launcher tells them one membership after another, and
 * each has a group of its own, over TCP, because memory that ranks share would be that of the first membership.
 */
export interface MembersWay {
  readonly kind: 'members';
  readonly meeting: TcpMeeting;
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
