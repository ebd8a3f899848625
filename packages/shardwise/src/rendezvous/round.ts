/** One host of a round: a launcher and the ranks that it starts. */
export interface RoundNode {
  /** The id of the launcher's process, which stays the same in all rounds. */
  readonly id: string;
  /** The host's name, for people. */
  readonly name: string;
  /** What the other hosts call it. */
  readonly address: string;
  readonly ranks: number;
}

/** One start of the group, as one of its hosts sees it. */
export interface Round {
  /** Counts the starts, from 0. */
  readonly epoch: number;
  /** The hosts, by their place. */
  readonly nodes: readonly RoundNode[];
  /** The place of this host. */
  readonly nodeRank: number;
  /** How much of the restart budget is used up. */
  readonly restarts: number;
  readonly runDirectory: string;
  /** The checkpoint from which the ranks go on. */
  readonly resumeDirectory: string | undefined;
  /** The store that all hosts reach; undefined where there is one host. */
  readonly store: RoundStore | undefined;
}

export interface RoundStore {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
}

/** What ended a rank's host or a rank, for people and other hosts. */
export interface RoundFailure {
  /** The rank that failed; absent where a host as a whole did. */
  readonly rank?: number | undefined;
  /** The label of the host; empty where there is one host. */
  readonly node: string;
  readonly reason: string;
  /**
   * `mistake`: what a rank would do again, so that nobody starts it again. `checkpoint`: a rank could not
   * read the one from which it was to go on. Absent: what may go well the next time.
   */
  readonly kind?: FailureKind | undefined;
}

export type FailureKind = 'mistake' | 'checkpoint';

/** How a round ended, the same for all hosts. */
export type RoundEnd =
  | { readonly kind: 'finished' }
  /** A rank or a host; costs a restart. */
  | { readonly kind: 'failed'; readonly failure: RoundFailure }
  /** Hosts wait that the group can take in; costs none. */
  | { readonly kind: 'joined'; readonly nodes: readonly string[] }
  /** The user wanted it at once. */
  | { readonly kind: 'stopped'; readonly node: string };

export function worldSizeOf({ nodes }: Pick<Round, 'nodes'>): number {
  return nodes.reduce((sum, { ranks }) => sum + ranks, 0);
}

/** The first of the ranks of a host. */
export function firstRankOf({ nodes }: Pick<Round, 'nodes'>, nodeRank: number): number {
  return worldSizeOf({ nodes: nodes.slice(0, nodeRank) });
}

/** The place of each rank's host. */
export function hostsOf({ nodes }: Pick<Round, 'nodes'>): readonly number[] {
  return nodes.flatMap(({ ranks }, place) => Array.from({ length: ranks }, () => place));
}

/** `node 1 (host-b)`; where there is one host, it goes without a name. */
export function nodeLabel(nodes: readonly { readonly name: string }[], nodeRank: number): string {
  const name = nodes[nodeRank]?.name ?? '';
  return nodes.length === 1 ? '' : `node ${nodeRank} (${name})`;
}

/** `Rank 3 on node 1 (host-b) failed: TypeError: …` */
export function describeFailure({ rank, node, reason }: RoundFailure): string {
  const where = node === '' ? '' : ` on ${node}`;
  if (rank !== undefined) return `Rank ${rank}${where} failed: ${reason}`;
  return node === '' ? reason : `${capitalized(node)} failed: ${reason}`;
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
