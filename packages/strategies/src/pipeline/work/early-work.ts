import { freeNode, type Node, type ProcessGroup } from '@shardwise/core/extend';
import { receiveBytes } from '../messages/message-bytes.ts';
import { type Message, tagOf } from '../messages/message.ts';
import type { BuiltBatch } from '../microbatches/build-microbatches.ts';
import type { PassSettings } from '../microbatches/pass-settings.ts';
import { numberedCrossings } from './forward-drafts.ts';
import { optimisticForwards } from './optimistic-forwards.ts';
import type { WorkItem } from './rank-work.ts';
import type { SharedParameter } from './shared-parameters.ts';

/**
 * Returns the part of a pass that a rank may do before deferred work. It is empty if the pass updates buffers, because
 * such an update could not be undone.
 */
export function earlyWork(
  items: readonly WorkItem[],
  { microbatches, updated }: BuiltBatch,
  shared: readonly SharedParameter[],
  { schedule, place, activationDtype }: PassSettings,
): EarlyWork {
  const assigns = items.some(({ computes }) => computes.some(({ op }) => op === 'assign'));
  if (updated.size > 0 || assigns) return new EarlyWork(items, 0, () => false);
  const forwards = optimisticForwards(schedule);
  const isEarly = (rank: number, stage: number, microbatch: number): boolean =>
    forwards[rank]?.has(`${stage} ${microbatch}`) === true;
  const last = items.findLastIndex(
    ({ made }) => made !== null && isEarly(place.rank, made.stage, made.microbatch),
  );
  const tags = new Set<number>();
  for (const [microbatch, crossings] of numberedCrossings(
    microbatches,
    activationDtype,
  ).entries()) {
    for (const { from, number } of crossings) {
      const sender = place.rankOfStage[from] ?? 0;
      if (isEarly(sender, from, microbatch)) tags.add(tagOf('activation', number));
    }
  }
  for (const { owner, index } of shared) {
    if ((forwards[owner]?.size ?? 0) > 0) tags.add(tagOf('parameter', index));
  }
  // The loss of the batch is sent early only if all of its parts are computed early.
  const parts = microbatches.map(({ graph, loss }) => (loss === null ? null : graph.stageOf(loss)));
  const isWhole = parts.every(
    (stage, microbatch) =>
      stage !== null && isEarly(place.rankOfStage[stage] ?? 0, stage, microbatch),
  );
  if (isWhole) tags.add(tagOf('result', 0));
  return new EarlyWork(items, last + 1, ({ tag }) => tags.has(tag));
}

/**
 * The items of a pass that a rank does before the verdict on the previous step is known. If the verdict changes
 * parameters, they are undone and done again.
 */
export class EarlyWork {
  /** The number of items at the beginning of the pass that are done early. */
  readonly count: number;
  /** The messages that other ranks send before their verdicts and this rank would receive only after its own. */
  readonly #stale: readonly Message[];
  readonly #inputs = new Map<Node, readonly Node[]>();

  /** `isEarly` returns whether the sender of a message that this rank receives sends it before the sender's verdict. */
  constructor(items: readonly WorkItem[], count: number, isEarly: (message: Message) => boolean) {
    this.count = count;
    this.#stale = items.slice(count).flatMap(({ receives }) => receives.filter(isEarly));
    for (const { receives, computes } of items.slice(0, count)) {
      for (const node of computes) if (node.value === null) this.#inputs.set(node, node.inputs);
      for (const { node } of receives) if (node.value === null) this.#inputs.set(node, node.inputs);
    }
  }

  /**
   * Drops the values that were computed and received, and receives and discards the messages that are still on their
   * way.
   */
  async undo(group: ProcessGroup): Promise<void> {
    for (const message of this.#stale) await receiveBytes(message, group);
    for (const [node, inputs] of this.#inputs) {
      freeNode(node, 'a step that was taken back');
      node.value = null;
      node.inputs = [...inputs];
    }
  }
}
