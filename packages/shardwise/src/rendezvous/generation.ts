/** The greatest number of hosts of a run. */
export const MAX_NODES = 1024;

/** One host of a generation: a launcher and the ranks that it starts. */
export interface GenerationNode {
  /** The id of the launcher's process. It is the same in all generations. */
  readonly id: string;
  /** The host's name, for people to read. */
  readonly name: string;
  /** The address at which the other hosts reach this host. */
  readonly address: string;
  readonly ranks: number;
  /** Counts the times that a host was taken into the run, over all hosts. The same launcher may come several times. */
  readonly admission?: number | undefined;
  /** Whether it is gone, and its place free, in a generation that goes on without hosts. */
  readonly isLost?: boolean | undefined;
}

type AdmittedNode = GenerationNode & { readonly admission: number };

/** A host that has gone or come while a generation goes on. */
export type HostChange =
  | {
      readonly kind: 'lost';
      readonly place: number;
      /** With which admission the host that is lost had the place. */
      readonly admission: number;
      readonly reason: string;
    }
  | { readonly kind: 'came'; readonly place: number; readonly node: AdmittedNode };

/** One start of the group, as one of its hosts sees it. */
export interface Generation {
  /** Counts the starts, from 0. */
  readonly epoch: number;
  /** The hosts, by their place. */
  readonly nodes: readonly GenerationNode[];
  /** The place of this host. */
  readonly nodeRank: number;
  /** How many restarts of the budget have been used up. */
  readonly restarts: number;
  readonly runDirectory: string;
  /** The checkpoint from which the ranks continue. */
  readonly resumeDirectory: string | undefined;
  /** The module that makes the transport of the ranks, by the name that the user has given. Undefined if none does. */
  readonly transport: string | undefined;
  /** The store that all hosts reach. Undefined if there is only one host. */
  readonly store: GenerationStore | undefined;
}

interface GenerationStore {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
}

/** Why a rank or a host failed, for people and for other hosts. */
export interface GenerationFailure {
  /** The rank that failed. Absent if a whole host failed. */
  readonly rank?: number | undefined;
  /** The label of the host. Empty if there is only one host. */
  readonly node: string;
  readonly reason: string;
  /**
   * `mistake`: the rank would fail again, so it is not started again. `checkpoint`: a rank could not read the
   * checkpoint from which it was to continue. Absent: the next start may succeed.
   */
  readonly kind?: FailureKind | undefined;
}

export type FailureKind = 'mistake' | 'checkpoint';

/** How a generation ended. It is the same for all hosts, but for those that were cut off. */
export type GenerationEnd =
  | { readonly kind: 'finished' }
  /**
   * A rank or a host failed. The next generation costs a restart. `isCutOff`: this host was cut off and cannot know how
   * the generation ended, or whether the others go on. Default: false.
   */
  | {
      readonly kind: 'failed';
      readonly failure: GenerationFailure;
      readonly isCutOff?: boolean | undefined;
    }
  /** Hosts wait that the group can take in. The next generation costs no restart. */
  | { readonly kind: 'joined'; readonly nodes: readonly string[] }
  /** The user ended the run at once. */
  | { readonly kind: 'stopped'; readonly node: string };

export function worldSizeOf({ nodes }: Pick<Generation, 'nodes'>): number {
  return nodes.reduce((sum, { ranks }) => sum + ranks, 0);
}

/** Returns the first of the ranks of a host. */
export function firstRankOf({ nodes }: Pick<Generation, 'nodes'>, nodeRank: number): number {
  return worldSizeOf({ nodes: nodes.slice(0, nodeRank) });
}

/** Returns the place of each rank's host. */
export function hostsOf({ nodes }: Pick<Generation, 'nodes'>): readonly number[] {
  return nodes.flatMap(({ ranks }, place) => Array.from({ length: ranks }, () => place));
}

/** Returns the label of a host, such as `node 1 (host-b)`. It is empty if there is only one host. */
export function nodeLabel(nodes: readonly { readonly name: string }[], nodeRank: number): string {
  const name = nodes[nodeRank]?.name ?? '';
  return nodes.length === 1 ? '' : `node ${nodeRank} (${name})`;
}

/** Describes a failure, such as `Rank 3 on node 1 (host-b) failed: TypeError: …`. */
export function describeFailure({ rank, node, reason }: GenerationFailure): string {
  const where = node === '' ? '' : ` on ${node}`;
  if (rank !== undefined) return `Rank ${rank}${where} failed: ${reason}`;
  return node === '' ? reason : `${capitalized(node)} failed: ${reason}`;
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
