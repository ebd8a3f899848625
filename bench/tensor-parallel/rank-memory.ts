import { memory, type MemoryOptions } from 'shardwise';
import type { RankMemory } from './messages.ts';

export function rankMemory(options: MemoryOptions): RankMemory {
  const { parameterBytes, gradientBytes, optimizerBytes, peakBytes } = memory(options);
  if (peakBytes === null) throw new TypeError('the device counts its memory');
  return { parameterBytes, gradientBytes, optimizerBytes, peakBytes };
}
