import { type Node, RecomputeRegion } from '@shardwise/core';

/** A style whose module is called with parts, and computes with the whole. */
export interface GatherAgainOptions {
  /**
   * Whether backward gathers an input that is a shard again, instead of keeping the whole for it
   * (Korthikanti et al. 2022): a rank keeps its part, for one more all-gather. Default: false.
   */
  readonly gatherAgain?: boolean;
}

/** Runs a part of a forward pass, of which backward makes gathers, and other shapes of them, again. */
export function gatheringAgain<T>(isOn: boolean, body: () => T): T {
  return isOn ? new RecomputeRegion({ keeps: (node) => !isGathered(node) }).run(body) : body();
}

function isGathered({ op }: Node): boolean {
  return op === 'allGather' || op === 'reshape';
}
