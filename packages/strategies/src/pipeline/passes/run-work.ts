import {
  type Compute,
  count,
  type Deferred,
  freeNode,
  type ProcessGroup,
  record,
} from '@shardwise/core/extend';
import { receiveBytes, sendValue } from '../messages/message-bytes.ts';
import type { FirstFault } from './first-fault.ts';
import type { EarlyWork } from '../work/early-work.ts';
import type { WorkItem } from '../work/rank-work.ts';

/** Does the work of a rank: first the early items, then the deferred work, then the rest. */
export async function runWork(
  items: readonly WorkItem[],
  group: ProcessGroup,
  compute: Compute,
  fault: FirstFault,
  early: EarlyRun | null,
): Promise<void> {
  const sends: Promise<void>[] = [];
  let left = items;
  if (early !== null) {
    const first = items.slice(0, early.work.count);
    try {
      await runItems(first, group, compute, fault, sends);
    } catch (error) {
      // A failure of the deferred work is reported to those who wait for it. This function throws the first error.
      await early.settle(compute).catch(() => {});
      throw error;
    }
    if (await early.settle(compute)) {
      await early.work.undo(group);
      fault.clear();
    } else {
      left = items.slice(first.length);
    }
  }
  await runItems(left, group, compute, fault, sends);
  await waitingFor(Promise.all(sends));
}

/** Waits for messages. The time counts as communication that computation did not hide. */
async function waitingFor<T>(messages: Promise<T>): Promise<T> {
  const start = performance.now();
  try {
    return await messages;
  } finally {
    count('communicationMs', performance.now() - start);
  }
}

/** The items that are done before deferred work, and the deferred work. */
export interface EarlyRun {
  readonly work: EarlyWork;
  readonly settle: Deferred;
}

/**
 * Does items one after the other. Sends are not waited for, and the values of the next item are requested before this
 * item is computed, so that messages travel during the computation. No order of items in which every value is made
 * before it is read can block.
 */
async function runItems(
  items: readonly WorkItem[],
  group: ProcessGroup,
  compute: Compute,
  fault: FirstFault,
  sends: Promise<void>[],
): Promise<void> {
  const asked = new Map<WorkItem, Promise<readonly Uint8Array[]>>();
  const ask = (item: WorkItem | undefined): void => {
    if (item === undefined || asked.has(item)) return;
    const arrival = Promise.all(item.receives.map((message) => receiveBytes(message, group)));
    // The item that needs the arrival reports the failure. Until then it must not be an unhandled rejection.
    arrival.catch(() => {});
    asked.set(item, arrival);
  };
  for (const [index, item] of items.entries()) {
    ask(item);
    ask(items[index + 1]);
    const arrived = await waitingFor(asked.get(item) ?? Promise.resolve([]));
    const start = performance.now();
    for (const [at, { node }] of item.receives.entries()) {
      const bytes = arrived[at];
      if (bytes === undefined) continue;
      // The node may be a buffer with a value, which the rank of another stage has updated.
      if (node.value?.kind === 'device') freeNode(node, 'an update on another rank');
      node.value = { kind: 'host', bytes, owned: true };
    }
    await compute(item.computes.filter(({ value }) => value === null));
    const { made } = item;
    if (made !== null) for (const node of made.nodes) fault.look(node, made);
    for (const message of item.sends) {
      const sent = sendValue(message, group);
      sent.catch(() => {});
      sends.push(sent);
    }
    for (const node of item.frees) if (node.value !== null) freeNode(node, 'the end of its stage');
    record('stage', item.name, start);
  }
}
