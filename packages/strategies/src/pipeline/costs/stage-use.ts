import { flopsOf } from '@shardwise/core/extend';
import { keptBytes } from '../kept-bytes.ts';
import { type WorkDraft, withFrees } from '../rank-work.ts';

/** What a stage computes and keeps for one microbatch. */
export interface StageUse {
  readonly flops: number;
  readonly activationBytes: number;
  readonly weightGradientBytes: number;
}

/** `drafts` are the forward, the input gradients and the weight gradients of a stage whose neighbours other ranks have. */
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
