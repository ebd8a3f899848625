/** What the page asks its ranks to train: a layer of experts, which is sharded over the ranks. */
export interface ExpertTask {
  readonly experts: number;
  /** How the load of the experts is balanced, so that no expert gets all tokens, or none. */
  readonly balance: 'none' | 'loss' | 'bias';
  /** The capacity of an expert, in multiples of its equal share of routes. 0 means no limit. */
  readonly capacity: number;
}

/** The routes of a rank's own tokens in this step. */
export interface ExpertLook {
  /** The share of routes of each expert. */
  readonly load: readonly number[];
  /** The imbalance of the load. It is 1 if all experts have the same number of routes. */
  readonly imbalance: number;
  /** The share of routes that was dropped. */
  readonly dropRate: number;
}

/** The number of patches on a side of the plane. Each patch belongs to one of `CLASSES` classes. */
export const PATCHES = 4;
export const CLASSES = 4;
/** The number of tokens of a step, for all ranks together. Every number of ranks divides it. */
export const TOKENS = 384;
