import { dist } from 'shardwise';
import type { RankMemory } from './messages.ts';

export function rankMemory(options: dist.MemoryOptions): RankMemory {
  const { parameterBytes, gradientBytes, optimizerBytes, peakBytes } = dist.memory(options);
  if (peakBytes === null) throw new TypeError('the device counts its memory');
  return { parameterBytes, gradientBytes, optimizerBytes, peakBytes };
}
