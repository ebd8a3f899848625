import type { Node, ProcessGroup } from '@shardwise/core/extend';
import { tagOf } from '../messages/message.ts';
import type { BuiltBatch } from '../microbatches/build-microbatches.ts';
import type { PipelinePlace } from '../microbatches/microbatch.ts';
import { draft, type WorkDraft } from '../work/rank-work.ts';

/** The ranks of a pipeline, and the place of this one. */
interface PipelineRanks {
  readonly group: ProcessGroup;
  readonly place: PipelinePlace;
}

/** A scalar that one rank computes and all ranks can read after the pass. Shapes: []. */
export interface ScalarResult {
  /** What the rank computes. */
  readonly node: Node;
  /** What the other ranks receive. */
  readonly replica: Node;
  /** The rank that computes it. */
  readonly root: number;
  /** The number of the result in the pass. */
  readonly index: number;
  /** The values of which it is made, such as the losses of microbatches. */
  readonly parts: readonly Node[];
}

/** Has the rank that computes a scalar send it to the others as soon as its parts are there. */
export function sendScalar(
  drafts: WorkDraft[],
  { node, replica, root, index, parts }: ScalarResult,
  { place, group }: PipelineRanks,
): void {
  const tag = tagOf('result', index);
  if (place.rank !== root) {
    const item = draft('result');
    item.receives.push({ node: replica, peer: root, tag });
    drafts.push(item);
    return;
  }
  const item = lastWith(drafts, parts);
  item.computes.add(node);
  for (const peer of othersOf(group)) item.sends.push({ node, peer, tag });
}

/** Has the ranks whose stages update buffers send them to the others at the end of the pass. */
export function sendBuffers(
  drafts: WorkDraft[],
  { updated }: BuiltBatch,
  { place, group }: PipelineRanks,
): void {
  const [send, receive] = [draft('send buffers'), draft('receive buffers')];
  for (const [index, [leaf, stage]] of [...updated].entries()) {
    const root = place.rankOfStage[stage] ?? 0;
    const tag = tagOf('buffer', index);
    if (place.rank !== root) receive.receives.push({ node: leaf, peer: root, tag });
    else for (const peer of othersOf(group)) send.sends.push({ node: leaf, peer, tag });
  }
  drafts.push(send, receive);
}

/** Returns the last draft that computes one of the parts. */
export function lastWith(drafts: WorkDraft[], parts: readonly Node[]): WorkDraft {
  const found = drafts.findLast(({ computes }) => parts.some((part) => computes.has(part)));
  if (found !== undefined) return found;
  const item = draft('result');
  drafts.push(item);
  return item;
}

function othersOf({ rank, size }: ProcessGroup): readonly number[] {
  return Array.from({ length: size }, (_, peer) => peer).filter((peer) => peer !== rank);
}
