import { dtypes, elementCount, flopsOf, type Node } from '@shardwise/core/extend';
import { type WorkDraft, withFrees } from '../rank-work.ts';

/** What a stage computes and keeps for one microbatch. */
export interface StageUse {
  readonly flops: number;
  readonly activationBytes: number;
  readonly weightGradientBytes: number;
}

/** `drafts` are the forward, the input gradients and the weight gradients of a stage whose neighbours other ranks have. */
export function stageUse(drafts: readonly WorkDraft[]): StageUse {
  const kept = new Set<Node>();
  const [activationBytes = 0, weightGradientBytes = 0] = withFrees(drafts, new Set()).map(
    ({ receives, computes, frees }) => {
      for (const { node } of receives) kept.add(node);
      for (const node of computes) kept.add(node);
      for (const node of frees) kept.delete(node);
      return bytesOf(kept);
    },
  );
  return { flops: flopsOfDrafts(drafts), activationBytes, weightGradientBytes };
}

function bytesOf(nodes: Iterable<Node>): number {
  let bytes = 0;
  for (const { shape, dtype, value } of nodes) {
    if (value === null) bytes += elementCount(shape) * dtypes[dtype].bytes;
  }
  return bytes;
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
