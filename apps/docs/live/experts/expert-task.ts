/** What the page asks its ranks to train: a layer of experts, shared out over the ranks. */
export interface ExpertTask {
  readonly experts: number;
  /** How experts are kept from having all tokens, or none. */
  readonly balance: 'none' | 'loss' | 'bias';
  /** An expert takes this many times its equal share of routes; 0: as many as come. */
  readonly capacity: number;
}

/** What the router did with a rank's own tokens in this step. */
export interface ExpertLook {
  /** The share of routes of each expert. */
  readonly load: readonly number[];
  /** 1 where all experts have as many routes. */
  readonly imbalance: number;
  /** The share of routes that was dropped. */
  readonly dropRate: number;
}

/** The plane has this many patches on a side; each is of one of `CLASSES` classes. */
export const PATCHES = 4;
export const CLASSES = 4;
/** Tokens of a step, of all ranks together. Numbers of ranks divide it. */
export const TOKENS = 384;
