import { ConfigError } from 'shardwise';

/** DeepSpeed's three sizes, of which each follows from the two others and the number of data-parallel ranks. */
export interface GivenBatchSizes {
  readonly train_batch_size?: number | undefined;
  readonly train_micro_batch_size_per_gpu?: number | undefined;
  readonly gradient_accumulation_steps?: number | undefined;
}

/** The sizes of batches. Without those of batches, the script makes batches as it likes. */
export interface BatchSizes {
  /** The rows of an update, of all ranks. */
  readonly train: number | undefined;
  /** The rows of a forward pass of one rank. */
  readonly micro: number | undefined;
  /** The number of forward passes of an update. */
  readonly accumulation: number;
}

const KEYS = [
  'train_batch_size',
  'train_micro_batch_size_per_gpu',
  'gradient_accumulation_steps',
] as const;

/**
 * Completes the sizes by DeepSpeed's arithmetic. Throws ConfigError, which names the keys that contradict each other, if they do
 * not fit: DeepSpeed rounds down first, and then finds that the product is another number.
 */
export function batchSizes(given: GivenBatchSizes, ranks: number): BatchSizes {
  const train = given.train_batch_size;
  const micro = given.train_micro_batch_size_per_gpu;
  const accumulation = given.gradient_accumulation_steps;
  if (train !== undefined) {
    const passes = accumulation ?? (micro === undefined ? 1 : Math.floor(train / micro / ranks));
    const rows = micro ?? Math.floor(train / ranks / passes);
    if (passes < 1 || rows < 1 || rows * passes * ranks !== train)
      throw contradiction(given, ranks);
    return { train, micro: rows, accumulation: passes };
  }
  const passes = accumulation ?? 1;
  return {
    train: micro === undefined ? undefined : micro * passes * ranks,
    micro,
    accumulation: passes,
  };
}

function contradiction(given: GivenBatchSizes, ranks: number): ConfigError {
  const { train_batch_size: train = 0 } = given;
  const { train_micro_batch_size_per_gpu: micro, gradient_accumulation_steps: passes } = given;
  const named = KEYS.filter((key) => given[key] !== undefined);
  const asked = named.map((key) => `${key} ${given[key]}`).join(' and ');
  const factor = (micro ?? 1) * (passes ?? 1) * ranks;
  const product = [micro, passes, ranks].filter((each) => each !== undefined).join(' × ');
  const found =
    named.length === 3
      ? `${train} is not ${product} = ${factor}, with ${ranks} data-parallel ranks`
      : `${train} is no multiple of ${product}${product === String(factor) ? '' : ` = ${factor}`}, with ${ranks} data-parallel ranks`;
  const lower = Math.max(factor, Math.floor(train / factor) * factor);
  const todo =
    named.length === 3
      ? `Write train_batch_size ${factor}, or remove one of the three`
      : `Write train_batch_size ${lower}${named.length === 1 ? ', or use another number of ranks' : ', or remove one of the two'}`;
  return new ConfigError({ asked, found, todo }, { ...given, ranks, path: named.join(', ') });
}
