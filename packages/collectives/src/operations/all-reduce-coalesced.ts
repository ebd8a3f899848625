import type { CallOptions, ProcessGroup, ReduceOp, TypedBytes } from '@shardwise/core/spec';
import { concatenate, spread } from './flat.ts';
import { checkAll, packsOf } from './packs.ts';

/** Does an `allReduce` of many buffers, in place. Short ones share a call. The bits are those of single calls. */
export async function allReduceCoalesced(
  group: ProcessGroup,
  buffers: readonly TypedBytes[],
  op: ReduceOp,
  options?: CallOptions,
): Promise<void> {
  checkAll('allReduceCoalesced', group, buffers);
  const calls = packsOf(buffers, (buffer) => buffer).map(async ({ dtype, items }) => {
    const [only, ...others] = items;
    if (only !== undefined && others.length === 0) return group.allReduce(only, op, options);
    const parts = items.map(({ bytes }) => bytes);
    const flat = concatenate(parts);
    await group.allReduce({ bytes: flat, dtype }, op, options);
    spread(flat, parts);
  });
  await Promise.all(calls);
}
