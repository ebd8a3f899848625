import {
  type Compute,
  currentSession,
  dtypes,
  elementCount,
  freeNode,
  type Node,
  type ProcessGroup,
  record,
} from '@shardwise/core/extend';
import type { FirstFault } from './first-fault.ts';
import { narrowed, widened } from './half-floats.ts';
import type { Message } from './message.ts';
import type { WorkItem } from './rank-work.ts';

/**
 * Does the work of a rank, item after item. Sends are not waited for until the end, and values of the next item are asked
 * for before this one is computed, so that messages travel beside the computation; no order of items that has every
 * value made before it is read can block.
 */
export async function runWork(
  items: readonly WorkItem[],
  group: ProcessGroup,
  compute: Compute,
  fault: FirstFault,
): Promise<void> {
  const sends: Promise<void>[] = [];
  const asked = new Map<WorkItem, Promise<readonly Uint8Array[]>>();
  const ask = (item: WorkItem | undefined): void => {
    if (item === undefined || asked.has(item)) return;
    const arrival = Promise.all(item.receives.map((message) => receiveBytes(message, group)));
    // Whoever waits for it is told; the others need not be.
    arrival.catch(() => {});
    asked.set(item, arrival);
  };
  for (const [index, item] of items.entries()) {
    ask(item);
    ask(items[index + 1]);
    const arrived = (await asked.get(item)) ?? [];
    const start = performance.now();
    for (const [at, { node }] of item.receives.entries()) {
      const bytes = arrived[at];
      if (bytes === undefined) continue;
      // A buffer, which the rank of another stage has updated.
      if (node.value?.kind === 'device') freeNode(node, 'an update on another rank');
      node.value = { kind: 'host', bytes, owned: true };
    }
    await compute(item.computes.filter(({ value }) => value === null));
    const { made } = item;
    if (made !== null) for (const node of made.nodes) fault.look(node, made);
    for (const message of item.sends) {
      const sent = sendBytes(message, await bytesOf(message.node), group);
      sent.catch(() => {});
      sends.push(sent);
    }
    for (const node of item.frees) if (node.value !== null) freeNode(node, 'the end of its stage');
    record('stage', item.name, start);
  }
  await Promise.all(sends);
}

/** What arrives, as bytes. */
export async function receiveBytes(
  { node, peer, tag, sentAs = null }: Message,
  group: ProcessGroup,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(elementCount(node.shape) * dtypes[sentAs ?? node.dtype].bytes);
  if (bytes.byteLength > 0) await group.recv({ bytes, dtype: 'u8' }, peer, { tag });
  return sentAs === null ? bytes : widened(bytes, sentAs);
}

export async function sendBytes(
  { peer, tag, sentAs = null }: Message,
  value: Uint8Array,
  group: ProcessGroup,
): Promise<void> {
  const bytes = sentAs === null ? value : narrowed(value, sentAs);
  if (bytes.byteLength > 0) await group.send({ bytes, dtype: 'u8' }, peer, { tag });
}

/** A copy, as the value may be freed before it has left. */
export async function bytesOf({ value, shape }: Node): Promise<Uint8Array> {
  if (value?.kind === 'host') return value.bytes.slice();
  if (value?.kind !== 'device')
    throw new RangeError(`no value of shape [${shape.join(', ')}] to send`);
  const { backend } = currentSession();
  const { buffer } = value.storage;
  return backend.map(buffer)?.slice() ?? (await backend.read(buffer));
}
