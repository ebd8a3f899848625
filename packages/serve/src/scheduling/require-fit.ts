import { ConfigError } from '@shardwise/core/extend';
import type { SchedulerOptions } from './scheduler-options.ts';

type FittingOptions = Pick<SchedulerOptions, 'blockCount' | 'blockSize' | 'maxSequences'>;

/** Throws ConfigError for so many tokens, so many times, if they would not fit even if they were alone. */
export function requireFit(
  tokens: number,
  samples: number,
  { blockCount, blockSize, maxSequences }: Required<FittingOptions>,
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
