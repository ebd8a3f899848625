import { ConfigError } from '@shardwise/core/spec';
import type { ServeOptions } from './serve-options.ts';

/** Throws ConfigError for options that would divide or replace weights that stay in the blocks of a file. */
export function requireWholeBlocks({
  quantized,
  tensorParallelSize,
  reload,
}: Pick<ServeOptions, 'quantized' | 'tensorParallelSize' | 'reload'>): void {
  if (!quantized) return;
  if (tensorParallelSize > 1) {
    throw blocksBeside(`--tensor-parallel-size ${tensorParallelSize}`, 'which ranks do not divide');
  }
  if (reload !== undefined) {
    throw blocksBeside(
      '--reload',
      'into which the weights of a training, which are floats, do not fit',
    );
  }
}

function blocksBeside(option: string, why: string): ConfigError {
  return new ConfigError(
    {
      asked: `--quantized with ${option}`,
      found: `weights in the blocks of a file, ${why}`,
      todo: 'Leave one of them out',
    },
    { option },
  );
}
