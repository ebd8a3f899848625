import type { Backend, ProcessGroup } from '@shardwise/core/extend';
import { linkFromMessages, type ClusterLink, type MeasuredMessage } from '@shardwise/planner';
import { median } from '../run-state/median.ts';

/** The bytes of a small message, of the gradients of a layer, and of those of several layers. */
const SIZES = [4096, 1 << 20, 4 << 20, 16 << 20] as const;
const ROUNDS = 5;

/**
 * Measures all-reduces among all ranks, in the memory in which gradients are. It is a collective. Undefined: there is one
 * rank.
 */
export async function measureLink(
  group: ProcessGroup,
  device: Backend,
): Promise<ClusterLink | undefined> {
  if (group.size === 1) return undefined;
  const messages: MeasuredMessage[] = [];
  for (const bytes of SIZES) {
    const buffer = device.alloc(bytes);
    device.write(buffer, new Uint8Array(bytes));
    await device.sync();
    const own = device.map(buffer) ?? new Uint8Array(bytes);
    const seconds: number[] = [];
    for (let round = 0; round <= ROUNDS; round++) {
      await group.barrier();
      const start = performance.now();
      await group.allReduce({ bytes: own, dtype: 'f32' }, 'sum');
      if (round > 0) seconds.push((performance.now() - start) / 1000);
    }
    device.free(buffer);
    messages.push({ name: 'allReduce', bytes, ranks: group.size, seconds: median(seconds) ?? 0 });
  }
  return linkFromMessages(messages);
}
