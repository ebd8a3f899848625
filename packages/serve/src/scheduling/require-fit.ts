import { ConfigError } from '@shardwise/core/extend';
import type { Scheduler } from './scheduler.ts';

/** Throws ConfigError for so many tokens, so many times, if they would not fit even if they were alone. */
export function requireFit(
  tokens: number,
  samples: number,
  {
    allocator: { blockCount },
    blockSize,
    maxSequences,
  }: Pick<Scheduler, 'allocator' | 'blockSize' | 'maxSequences'>,
): void {
  const blocks = samples * Math.ceil(tokens / blockSize);
  if (blocks <= blockCount && samples <= maxSequences) return;
  throw new ConfigError(
    {
      asked: `to continue a prompt up to ${tokens} tokens, ${samples} times`,
      found: `that takes ${blocks} blocks of the cache's ${blockCount}, and at most ${maxSequences} sequences run at once`,
      todo: 'Give a larger cache, or ask for fewer tokens',
    },
    { tokens, samples, blocks, blockCount },
  );
}
