/** Counts since an engine was made. */
export interface EngineStatistics {
  readonly steps: number;
  readonly requests: number;
  /** Tokens whose keys and values were computed, of prompts and behind them. */
  readonly computedTokens: number;
  readonly generatedTokens: number;
  /** Tokens of prompts that were found in the cache. */
  readonly prefixTokens: number;
  /** Tokens that were proposed to follow others, and that steps have computed behind these. */
  readonly proposedTokens: number;
  /** Proposed tokens that did follow. */
  readonly acceptedTokens: number;
  readonly preemptions: number;
  readonly waiting: number;
  readonly running: number;
  readonly blocks: number;
  readonly usedBlocks: number;
  /** Places of used blocks that have no token. Only the last block of a sequence has such places. */
  readonly emptyPlaces: number;
  /** Blocks that nobody uses, whose content a prompt may begin with. */
  readonly keptBlocks: number;
  /** Blocks whose contents are in the memory of the host. */
  readonly swappedBlocks: number;
  readonly cacheBytes: number;
  /** What `loadWeights` was told to call the present weights. Null before the first time. */
  readonly weightsVersion: string | null;
  readonly weightsLoads: number;
  /** How often `loadWeights` failed, and the weights before stayed. */
  readonly weightsLoadFailures: number;
}
