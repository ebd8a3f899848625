import { flopsOf } from '@shardwise/core/extend';
import { keptBytes } from '../kept-bytes.ts';
import { type WorkDraft, withFrees } from '../rank-work.ts';

/** The operations and bytes of a stage for one microbatch. */
export interface StageUse {
  readonly flops: number;
  readonly activationBytes: number;
  readonly weightGradientBytes: number;
}

/**
 * Sums up what a stage uses. `drafts` are its forward, input gradients and weight gradients, with its neighbours on
 * other ranks.
 */
export function stageUse(drafts: readonly WorkDraft[]): StageUse {
  const none = new Set<never>();
  const [activationBytes = 0, weightGradientBytes = 0] = keptBytes(withFrees(drafts, none), none);
  return { flops: flopsOfDrafts(drafts), activationBytes, weightGradientBytes };
}

function flopsOfDrafts(drafts: readonly WorkDraft[]): number {
  const received = new Set(drafts.flatMap(({ receives }) => receives.map(({ node }) => node)));
  const seen = new Set(drafts.flatMap(({ computes }) => [...computes]));
  let flops = 0;
  for (const node of seen) {
    if (received.has(node) || node.value !== null) continue;
    flops += flopsOf(node);
    for (const input of node.inputs) seen.add(input);
  }
  return flops;
}
