import { dist } from 'shardwise';
import type { RankInThread } from '@shardwise/testing/node';
import { lossCurve } from './autocast-curve.ts';

const mixedPrecision = { computeDtype: 'bf16' } as const;
const inHalf = { ...mixedPrecision, parameterDtype: 'bf16', reduceDtype: 'f32' } as const;
const styles = {
  'blocks.*.attention.qkv': dist.styles.colwiseParallel({ heads: [3, 3, 3] }),
  'blocks.*.attention.projection': dist.styles.rowwiseParallel(),
  'blocks.*.up': dist.styles.colwiseParallel(),
  'blocks.*.down': dist.styles.rowwiseParallel(),
};

/** Strategies that shard the batch, and strategies that shard layers. */
export const strategies: Readonly<Record<string, () => dist.Strategy>> = {
  DDP: () => dist.ddp({ mixedPrecision }),
  'ZeRO-1': () => dist.zero({ stage: 1, mixedPrecision }),
  'ZeRO-2 with parameters in bf16': () => dist.zero({ stage: 2, mixedPrecision: inHalf }),
  'ZeRO-3': () => dist.zero({ stage: 3, mixedPrecision }),
  FSDP: () => dist.fsdp({ mixedPrecision }),
  'tensor parallelism': () => dist.tensorParallel(styles, { axis: 'dp', mixedPrecision }),
};

/** Trains the GPT with each strategy on this rank. Returns the losses. */
export async function trainByEach({
  rank,
  size,
}: Pick<RankInThread, 'rank' | 'size'>): Promise<Readonly<Record<string, readonly number[]>>> {
  const found: Record<string, readonly number[]> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    const part = name === 'tensor parallelism' ? { rank: 0, size: 1 } : { rank, size };
    found[name] = await lossCurve('gpt', 'adamw', 'bf16', { strategy: strategy(), ...part });
  }
  return found;
}
