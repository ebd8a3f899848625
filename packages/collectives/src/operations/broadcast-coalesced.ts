import type { CallOptions, ProcessGroup, TypedBytes } from '@shardwise/core/spec';
import { concatenate, spread } from './flat.ts';
import { checkAll, packsOf } from './packs.ts';

/** Does a `broadcast` of many buffers, in place. Short ones share a call. */
export async function broadcastCoalesced(
  group: ProcessGroup,
  buffers: readonly TypedBytes[],
  root: number,
  options?: CallOptions,
): Promise<void> {
  checkAll('broadcastCoalesced', group, buffers);
  const calls = packsOf(buffers, (buffer) => buffer).map(async ({ dtype, items }) => {
    const [only, ...others] = items;
    if (only !== undefined && others.length === 0) return group.broadcast(only, root, options);
    const parts = items.map(({ bytes }) => bytes);
    const flat = concatenate(parts);
    await group.broadcast({ bytes: flat, dtype }, root, options);
    if (group.rank !== root) spread(flat, parts);
  });
  await Promise.all(calls);
}
